// Package limits decides about resource limits: it parses sizes, combines two sets of limits, chooses the mechanism of
// a host that enforces each limit, and words the message about a limit that was hit. It may import escape alone, and
// asks the system nothing: package limiter finds the facts and carries out the plan.
package limits
