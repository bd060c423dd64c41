//go:build linux

package integration

import "testing"

// zoo makes a tree with every kind of file an archiver cares about.
const zoo = `
	mkdir -p zoo/dir/sub zoo/empty 'zoo/na me' zoo/ro
	printf 'plain\n' >zoo/plain
	head -c 300000 /dev/zero | tr '\0' 'z' >zoo/big
	: >zoo/nothing
	truncate -s 5M zoo/sparse; printf x | dd of=zoo/sparse bs=1 seek=2000000 conv=notrunc status=none
	ln zoo/plain zoo/dir/hard
	ln -s plain zoo/link; ln -s /nowhere zoo/dangling; ln -s ../dir zoo/dir/up
	printf 'exec\n' >zoo/run; chmod 755 zoo/run
	printf 'secret\n' >zoo/secret; chmod 600 zoo/secret
	printf 's\n' >zoo/sgid; chmod 2755 zoo/sgid; chmod 1777 zoo/empty
	mkfifo zoo/fifo
	printf 'n\n' >"zoo/na me/$(printf 'a\tb\nc\377')"
	for i in $(seq 200); do echo "$i" >"zoo/dir/sub/f$i"; done
	setfattr -n user.note -v hello zoo/plain
	setfattr -n user.dir -v there zoo/dir
	setfacl -m u:12345:r zoo/run
	setfacl -d -m u:12345:rx zoo/dir
	chown 1234:2345 zoo/dir/sub/f1; chown -h 1234 zoo/link
	printf 'r\n' >zoo/ro/f; chmod 500 zoo/ro
	find zoo -depth -exec touch -h -d '2021-02-03 04:05:06.123456789' {} +
`

// archivers copies the directory zoo to $1 and from there to $2 in every way,
// and back to $OUT.
const archivers = `
	take() {
		cp -a "$1" "$2/cp"
		rsync -aHAX "$1/" "$2/rsync/"
		mkdir "$2/tar"; tar --xattrs --acls --format=posix -cf - -C "$1" . | tar --xattrs --acls -xpf - -C "$2/tar"
	}
	same() {
		rsync -aHAXn --delete --itemize-changes "$1/" "$2/"
	}
`

// TestArchivers copies a tree of all kinds of files from the project to the
// workspace's disk, out of it and back, with times and attributes.
func TestArchivers(t *testing.T) {
	t.Parallel()
	program{
		needs:   []string{"root", "rsync", "xattr", "acl"},
		project: func(t *testing.T, dir string) { script(t, dir, zoo) },
		script: archivers + `
			mkdir disk
			take zoo disk
			take disk/rsync "$OUT"
			for c in cp rsync tar; do same zoo disk/$c; same disk/$c "$OUT/$c"; done
			mkdir back; take "$OUT/tar" back
			same zoo back/tar
			find zoo disk back | LC_ALL=C sort | sha256sum
			find . -xdev -type f -links +1 | sort
			du -s --apparent-size disk/cp | cut -f1
			diff -r --no-dereference disk/cp back/rsync 2>&1 | grep -v fifo || true
			chmod -R go-rwx disk/cp
			rsync -a --delete disk/rsync/ disk/cp/
			same disk/rsync disk/cp
			cp -a zoo/. disk/cp/
			mv back moved
			rm zoo/plain # of a project file, the link count would not tell that zoo/dir/hard is gone
			rm -rf zoo/dir disk/tar moved/cp
			ls -AR zoo disk moved | sha256sum; ls -A zoo disk moved
			find . -newer moved/tar/plain -name plain
		`,
	}.run(t)
}

// TestArchiversInStore does it in directories of the store.
func TestArchiversInStore(t *testing.T) {
	t.Parallel()
	program{
		needs:   []string{"root", "rsync", "xattr", "acl"},
		project: func(t *testing.T, dir string) { script(t, dir, zoo) },
		script: archivers + `
			mkdir memory/in skills/in
			take zoo memory/in
			take memory/in/rsync skills/in
			take memory/in/tar "$OUT"
			for c in cp rsync tar; do same zoo memory/in/$c; same zoo skills/in/$c; same zoo "$OUT/$c"; done
			mv memory/in/cp memory/cp
			rm memory/cp/dir/hard # a hard link cannot lead from one route to another
			mv memory/cp/dir plans/dir
			rm -rf memory/in/tar skills/in
			find memory skills plans | LC_ALL=C sort | sha256sum
		`,
	}.run(t)
}

// TestRemoveAll removes large directories of the project, merged ones, and
// ones that several programs empty at a time; what is made anew is empty.
func TestRemoveAll(t *testing.T) {
	t.Parallel()
	program{
		project: func(t *testing.T, dir string) {
			script(t, dir, `
				for d in a b c d/x/y; do mkdir -p $d; (cd $d; seq 3000 | xargs touch); done
				mkdir -p skills/t; (cd skills/t; seq 500 | xargs touch)`)
		},
		script: `
			for d in a b c; do (cd $d; seq 2000 5000 | xargs touch; seq 4000 5000 | sed s/^/n/ | xargs touch); done
			ls a | wc -l; ls -U a | sort -u | wc -l
			rm -rf a
			find b -type f | xargs -P 8 -n 50 rm; rmdir b
			find c -type f -name '*7' -delete; ls c | wc -l
			mkdir a b; ls -A a b
			touch a/1 b/n5000; ls -A a b
			rm -rf d; mkdir -p d/x/y; ls -A d/x/y
			rm -rf skills/t; mkdir skills/t; ls -A skills/t; touch skills/t/5
			rm -rf c/*; rmdir c
			ls -A
		`,
	}.run(t)
}
