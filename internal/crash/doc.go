// Package crash is a test and nothing else: smelt dies before and after everything
// that it does which others can see, and the next process goes on. What there is of
// such points, and what each leaves behind, is in docs/crash-points.md, which the
// test writes.
package crash
