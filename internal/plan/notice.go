package plan

type NoticeKind uint8

// The kinds. No notice has the zero kind.
const (
	NoNotice         NoticeKind = iota
	NoticeGit                   // git cannot write to the project's git directory
	NoticeGroup                 // what belongs to a group cannot be changed in an overlay
	NoticeOwner                 // root cannot write to another user's folder
	NoticeUnguarded             // not all that git executes in a folder is read-only
	NoticePlayground            // there is no playground
	NoticeLater                 // what comes up later is not hidden
)

// A Notice is about something unusual that is not an error.
type Notice struct {
	Kind NoticeKind
	Path string // empty: it is about none
	Text string
}
