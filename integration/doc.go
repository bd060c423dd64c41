// Package integration holds the tests of wsfs as its users meet it: the real
// binary on real mounts, with real programs, each compared with the same run
// on a plain directory. It also holds the rules of the repository that can be
// checked: who imports whom, and what has to be documented.
//
// A test that needs more than Go says so by need. Without it the test is
// skipped, unless the environment's WSFS_REQUIRE lists it (separated by
// commas): then it fails.
//
//	fuse                            a /dev/fuse that can be opened; without root, fusermount3
//	root                            effective user 0
//	loop                            loop devices
//	btrfs xfs                       that file system, in the kernel and its mkfs
//	git go npm rsync sqlite3 vim    the program of that name
//	xattr acl                       the programs setfattr, setfacl
package integration
