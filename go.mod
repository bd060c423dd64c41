module github.com/wsfs/wsfs

go 1.26.0

require (
	github.com/hanwen/go-fuse/v2 v2.12.1 // indirect
	golang.org/x/sys v0.50.0 // indirect
)
