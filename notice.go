package nsrun

import "github.com/nsrun/nsrun/internal/plan"

// NoticeKind says what a Notice is about.
type NoticeKind uint8

// The kinds. The zero NoticeKind is NoticeOther, for a Notice without a kind of its own; a Recorder may use it.
const (
	NoticeOther       NoticeKind = iota
	NoticeGit                    // git cannot write to the git directory of Path, a linked work tree or a submodule
	NoticeGroup                  // Path belongs to a group that the sandbox does not have
	NoticeOwner                  // Path belongs to another user, and root cannot write to it
	NoticeUnguarded              // not everything that git executes in a folder is read-only
	NoticePlayground             // there is no playground
	NoticeOutput                 // the end of the output may be missing
	NoticeKept                   // the start of a command was cancelled, and its changes are kept
	NoticeRunsLater              // files that were written in place will be executed later, by themselves
	NoticeMerge                  // the files that a later merge needs could not be kept
	NoticeRecord                 // a Recorder was not told of something
	NoticeRegistry               // a Registry could not keep something
	NoticeBackup                 // there is no backup of Path
	NoticeWatch                  // live changes are incomplete
	NoticeLimit                  // a limit was reached, or is enforced less strictly than asked
	NoticeUnsandboxed            // the command runs without a sandbox
	NoticeProc                   // the command sees the other processes of this container
	NoticeLater                  // a file that a Blocked rule names is visible if it appears later
	NoticeBackend                // the command runs without namespaces, and sees Path at another place
	NoticeHome                   // there is no home layer, a part of it was removed, or files in it may be cut off
	NoticeInput                  // Request.Stdin returned an error: the command had only the beginning
)

// A Notice reports an unusual condition that is not an error. In JSON it is its Text.
type Notice struct {
	Kind NoticeKind
	Path string // what it is about, absolute; empty: no single path
	Text string // for people; names in it have their control characters escaped
}

// String returns n.Text.
func (n Notice) String() string { return n.Text }

func (n Notice) MarshalText() ([]byte, error) { return []byte(n.Text), nil }

// UnmarshalText sets n.Text, and nothing else.
func (n *Notice) UnmarshalText(text []byte) error {
	*n = Notice{Text: string(text)}
	return nil
}

var noticeKinds = [...]NoticeKind{
	plan.NoNotice:         NoticeOther,
	plan.NoticeGit:        NoticeGit,
	plan.NoticeGroup:      NoticeGroup,
	plan.NoticeOwner:      NoticeOwner,
	plan.NoticeUnguarded:  NoticeUnguarded,
	plan.NoticePlayground: NoticePlayground,
	plan.NoticeLater:      NoticeLater,
}

func publicNotices(list []plan.Notice) (notices []Notice) {
	for _, n := range list {
		notices = append(notices, Notice{noticeKinds[n.Kind], n.Path, n.Text})
	}
	return notices
}
