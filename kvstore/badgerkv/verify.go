package badgerkv

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
	"github.com/dgraph-io/ristretto/v2/z"
	"google.golang.org/protobuf/proto"

	"github.com/wsfs/wsfs/kvstore"
)

// damaged returns the error of a store of which the file path is not what the
// store has written.
func damaged(path, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s; nothing was changed: restore the directory from a copy, or move it away to start with an empty store",
		kvstore.ErrCorrupt, path, fmt.Sprintf(format, args...))
}

// verify returns nil if the files in dir are those of a store, to the last
// bit, and hold every commit up to the last one; otherwise an error that wraps
// ErrCorrupt, and nothing was changed. It reads all of them.
//
// Badger itself ends the process over some damages, goes on without a table or
// the rest of a log over others, and deletes tables that its manifest does not
// name. So none of them may get as far as badger.
//
// With synced unset commits at the end of a log may be lost after a power cut,
// and no gap proves a damage.
func verify(dir string, synced bool) error {
	manifest, err := readManifest(dir)
	if err != nil {
		return err
	}
	var version uint64 // of the last commit that was found
	for _, id := range slices.Sorted(maps.Keys(manifest.Tables)) {
		v, err := verifyTable(table.NewFilename(id, dir))
		if err != nil {
			return err
		}
		version = max(version, v)
	}
	logs, err := list(dir, ".mem")
	if err != nil {
		return err
	}
	for _, path := range logs {
		if version, err = verifyLog(path, version, synced); err != nil {
			return err
		}
	}
	return nil
}

// readManifest returns badger's list of tables; an empty one for a directory
// that holds no store yet.
func readManifest(dir string) (badger.Manifest, error) {
	path := filepath.Join(dir, badger.ManifestFilename)
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return badger.Manifest{}, wantNoStore(dir)
	}
	if err != nil {
		return badger.Manifest{}, fmt.Errorf("badgerkv: open manifest: %w", err)
	}
	defer file.Close()
	manifest, _, err := badger.ReplayManifestFile(file, formatVersion, badger.DefaultOptions(dir).WithLogger(nil))
	if err != nil {
		return badger.Manifest{}, damaged(path, "%v", err)
	}
	return manifest, nil
}

// wantNoStore returns an error if dir, which has no manifest, has files that go
// with one.
func wantNoStore(dir string) error {
	for _, ext := range []string{".sst", ".mem"} {
		files, err := list(dir, ext)
		if err != nil {
			return err
		}
		if len(files) > 0 {
			return damaged(filepath.Join(dir, badger.ManifestFilename), "is missing, while %s is there", files[0])
		}
	}
	return nil
}

// verifyTable checks every block of the table in the file path, and returns the
// largest version it holds.
func verifyTable(path string) (version uint64, err error) {
	defer func() {
		if p := recover(); p != nil { // badger's way of meeting a wrong length
			err = damaged(path, "a block of the table has a wrong length")
		}
	}()
	file, err := z.OpenMmapFile(path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrPermission) {
		return 0, fmt.Errorf("badgerkv: open table: %w", err)
	}
	if err != nil {
		return 0, damaged(path, "the table cannot be opened: %v", err)
	}
	if err := verifyFooter(file.Data); err != nil {
		return 0, errors.Join(damaged(path, "%v", err), file.Close(-1))
	}
	t, err := table.OpenTable(file, table.Options{ReadOnly: true, ChkMode: options.OnTableAndBlockRead})
	if err != nil {
		return 0, damaged(path, "a block of the table: %v", err)
	}
	return t.MaxVersion(), t.Close(-1)
}

// verifyFooter checks the end of a table: the lengths, which badger trusts, and
// the index that all else is found with.
//
//	... | index | length of index | checksum | length of checksum
func verifyFooter(data []byte) error {
	rest, sum, err := lastField(data)
	if err != nil {
		return fmt.Errorf("checksum of the table: %w", err)
	}
	_, index, err := lastField(rest)
	if err != nil {
		return fmt.Errorf("index of the table: %w", err)
	}
	var want pb.Checksum
	if err := proto.Unmarshal(sum, &want); err != nil {
		return fmt.Errorf("checksum of the table: %w", err)
	}
	if want.Algo != pb.Checksum_CRC32C {
		return fmt.Errorf("checksum of the table is of unknown kind %d", want.Algo)
	}
	if err := y.VerifyChecksum(index, &want); err != nil {
		return fmt.Errorf("index of the table: %w", err)
	}
	return nil
}

// lastField cuts off the field that data ends with: its bytes, and their number
// in four bytes.
func lastField(data []byte) (rest, field []byte, err error) {
	if len(data) < 4 {
		return nil, nil, errors.New("is cut off")
	}
	rest = data[:len(data)-4]
	n := int64(binary.BigEndian.Uint32(data[len(rest):]))
	if n > int64(len(rest)) {
		return nil, nil, fmt.Errorf("has %d bytes, more than there are", n)
	}
	return rest[:len(rest)-int(n)], rest[len(rest)-int(n):], nil
}

// list returns the paths of the files in dir with the extension ext, ascending
// by their number.
func list(dir, ext string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("badgerkv: read store directory: %w", err)
	}
	var paths []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ext {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	slices.SortFunc(paths, func(a, b string) int { // 99999.mem is before 100000.mem
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	return paths, nil
}

// clear removes files that badger makes anew and of which the store needs
// nothing, so that a damage of theirs does no harm: the value log, which holds
// no values, its statistics, and the list of encryption keys, of which there are
// none. It cuts off what a kill left half written at the end of logs.
//
// Preconditions: verify returned nil.
func clear(dir string) error {
	values, err := list(dir, ".vlog")
	if err != nil {
		return err
	}
	for _, path := range append(values, filepath.Join(dir, "DISCARD"), filepath.Join(dir, "KEYREGISTRY")) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("badgerkv: open store: %w", err)
		}
	}
	logs, err := list(dir, ".mem")
	if err != nil {
		return err
	}
	for _, path := range logs {
		if err := trimLog(path); err != nil {
			return fmt.Errorf("badgerkv: trim log: %w", err)
		}
	}
	return nil
}
