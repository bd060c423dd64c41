//go:build linux

package integration

import "testing"

// TestSQLite has two processes write one database in WAL mode, which maps a
// file shared and locks ranges of it: a database of the project, one on the
// workspace's disk, and one in the store.
func TestSQLite(t *testing.T) {
	t.Parallel()
	need(t, "sqlite3")
	program{
		project: func(t *testing.T, dir string) {
			script(t, dir, `sqlite3 p.db 'pragma journal_mode=wal; create table t(w, n); insert into t values(0, 0)' >/dev/null`)
		},
		view: view{skip: []string{"p.db", "new.db", "memory/m.db"}}, // pages in the order of commits
		script: `
			writer() {
				for i in $(seq 100); do echo "insert into t values($2, $i);"; done |
					sqlite3 -cmd '.timeout 60000' "$1"
			}
			both() {
				writer "$1" 1 & one=$!
				writer "$1" 2 & two=$!
				wait $one; wait $two
				sqlite3 "$1" 'pragma integrity_check; select w, count(*), sum(n) from t group by w; pragma wal_checkpoint(truncate); pragma journal_mode'
			}
			both p.db
			sqlite3 new.db 'pragma journal_mode=wal; create table t(w, n)'
			both new.db
			sqlite3 memory/m.db 'pragma journal_mode=delete; create table t(w, n)'
			both memory/m.db
			sqlite3 new.db vacuum
			ls -A . memory
		`,
	}.run(t)
}
