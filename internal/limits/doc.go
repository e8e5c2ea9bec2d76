// Package limits decides about resource limits: what a size is, what two sets of limits are together, which mechanism of
// a host holds which limit, and what is said of one that was hit. It may import escape alone, and asks
// nobody: package limiter finds the facts and does what is planned here.
package limits
