//go:build linux

package nsrun

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nsrun/nsrun/internal/plan"
)

// TestNoticeKinds: every kind of package plan is one here, and no two are the same.
func TestNoticeKinds(t *testing.T) {
	seen := map[NoticeKind]bool{}
	for k := plan.NoNotice; k <= plan.NoticeLater; k++ {
		n := publicNotices([]plan.Notice{{Kind: k, Path: "/p", Text: "text"}})[0]
		if seen[n.Kind] || (n.Kind == NoticeOther) != (k == plan.NoNotice) || n.Path != "/p" || n.Text != "text" {
			t.Errorf("%d is %+v", k, n)
		}
		seen[n.Kind] = true
	}
	if len(noticeKinds) != int(plan.NoticeLater)+1 {
		t.Errorf("%d kinds", len(noticeKinds))
	}
}

// TestNoticeJSON: programs that read a Result get texts.
func TestNoticeJSON(t *testing.T) {
	list := []Notice{{Kind: NoticeGit, Path: "/p", Text: "git cannot"}, {Text: "other"}}
	b, err := json.Marshal(Result{Notices: list})
	if err != nil || !strings.Contains(string(b), `"Notices":["git cannot","other"]`) {
		t.Errorf("%s, %v", b, err)
	}
	var again []Notice
	if b, err = json.Marshal(list); err == nil {
		err = json.Unmarshal(b, &again)
	}
	if err != nil || len(again) != 2 || again[0] != (Notice{Text: "git cannot"}) || fmt.Sprint(again) != "[git cannot other]" {
		t.Errorf("%v, %v", again, err)
	}
}

// TestAccess: of all modes four are for rules.
func TestAccess(t *testing.T) {
	want := map[Mode]plan.Access{Direct: plan.Write, ReadOnly: plan.Show, Blocked: plan.Block, Protected: plan.Protect}
	for i := range 256 {
		if got := access(Mode(i)); got != want[Mode(i)] {
			t.Errorf("%s is %d", Mode(i), got)
		}
	}
}

// TestPublicErrors: what comes from below has a type that embedders know, and the text that it had.
func TestPublicErrors(t *testing.T) {
	why := errors.New("why")
	rules, paths := []Rule{{}, {Mode: Direct, Pattern: "/a"}}, []Rule{{Mode: ReadOnly, Pattern: "/b"}}
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, "<nil> <nil>"},
		{why, "*errors.errorString why"},
		{&plan.Error{Op: "open", Path: "/a", Err: why}, "*nsrun.Error open /a: why"},
		{&plan.MountError{Folder: "/a", Below: "/a/b"}, "*nsrun.MountError project /a has another file system mounted at /a/b: an overlay cannot hold it"},
		{&plan.RuleError{Index: 1, Err: why}, "*nsrun.RuleError rule direct /a: why"},
		{&plan.RuleError{Asked: true, Err: why}, "*nsrun.RuleError rule read-only /b: why"},
	} {
		got := public(c.err, rules, paths)
		if text := fmt.Sprintf("%T %v", got, got); text != c.want || c.err != nil && strings.Contains(c.want, "why") && !errors.Is(got, why) {
			t.Errorf("%s, want %s", text, c.want)
		}
	}
}
