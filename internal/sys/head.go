//go:build linux

package sys

// Head returns the beginning of a file, as much as fits into room. Some files in /proc are as long as a process makes
// them: its command line, and what is known of its descriptors.
func Head(name string, room []byte) ([]byte, error) {
	fd, err := openRead(name)
	if err != nil {
		return nil, err
	}
	defer fd.Close()
	have := 0
	for have < len(room) {
		k, err := fd.Read(room[have:])
		if err != nil || k == 0 {
			return room[:have], err
		}
		have += k
	}
	return room[:have], nil
}
