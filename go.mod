module github.com/wsfs/wsfs

go 1.26
