package prog

// Part is the part of a step that failed, where that makes a difference.
type Part uint8

const (
	PartNone    Part = iota
	PartSource       // finding the source
	PartParents      // making the parents of the target
	PartTarget       // making or opening the target
	PartSymlink      // the target is a symbolic link
	PartNotDir       // a directory goes where something else is
	PartNotFile      // something else goes where a directory is
	PartContent      // filling what was made
	PartChanged      // the source is not what it was to be
	PartMade         // the target exists, and is something else
)
