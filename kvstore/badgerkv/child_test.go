package badgerkv_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/wsfs/wsfs/kvstore"
	"github.com/wsfs/wsfs/kvstore/badgerkv"
)

// The tests need other processes: to kill, and to survive what ends a process.
// They are this test binary with childEnv set to what it is to do.
const childEnv = "BADGERKV_TEST_CHILD"

func TestMain(m *testing.M) {
	role, dir, ok := strings.Cut(os.Getenv(childEnv), ":")
	if !ok {
		os.Exit(m.Run())
	}
	if err := roles[role](dir); err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
}

// roles are what a child can do with a store's directory.
var roles = map[string]func(dir string) error{
	"hold":  hold,
	"write": write,
	"read":  read,
	"long":  long,
	"nobody": func(dir string) error {
		if err := syscall.Setuid(65534); err != nil {
			return err
		}
		return read(dir)
	},
}

// hold opens the store, says so, and keeps it open until its input ends.
func hold(dir string) error {
	s, err := badgerkv.Open(dir, options())
	if err != nil {
		return err
	}
	fmt.Println("open")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return s.Close()
}

// write applies batches from the number that the store holds on, and prints
// each number once its batch was acknowledged.
func write(dir string) error {
	s, err := badgerkv.Open(dir, options())
	if err != nil {
		return err
	}
	n, err := lastBatch(context.Background(), s)
	if err != nil {
		return err
	}
	for {
		n++
		if err := s.Apply(context.Background(), numbered(n)); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// long overwrites values of 1 MiB without end, so that the store writes tables
// and merges them all the time, and prints what it has done like write.
func long(dir string) error {
	s, err := badgerkv.Open(dir, options())
	if err != nil {
		return err
	}
	n, err := lastBatch(context.Background(), s)
	if err != nil {
		return err
	}
	for {
		n++
		if err := s.Apply(context.Background(), longBatch(n)); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// longBatch returns batch n of long: three long values that begin with n.
func longBatch(n int) *kvstore.Batch {
	var b kvstore.Batch
	for i := range 3 {
		b.Put(kvstore.Key(fmt.Sprint("long/", i)), append(fmt.Appendf(nil, "%08d", n), make([]byte, 1<<20)...))
	}
	b.Put("last", []byte(strconv.Itoa(n)))
	return &b
}

// read opens the store, reads everything, and says what it has found.
func read(dir string) error {
	s, err := badgerkv.Open(dir, options())
	if err != nil {
		return err
	}
	items := 0
	err = s.Scan(context.Background(), "", func(kvstore.Item) error { items++; return nil })
	fmt.Println("items:", items)
	return errors.Join(err, s.Close())
}

// batchKeys is how many keys batch n sets. Batch n sets the keys n/0, n/1 ...,
// and "last" to n.
func batchKeys(n int) int { return 1 + n%7 }

// batchValue is the value of each key of batch n: mostly short, some long
// enough to be cut into parts.
func batchValue(n int) []byte {
	size := 10 + n%300
	if n%40 == 0 {
		size = 300_000 + n%3*900_000
	}
	return []byte(strings.Repeat(strconv.Itoa(n%10), min(size, kvstore.MaxBatch/2/batchKeys(n))))
}

func batchKey(n, i int) kvstore.Key { return kvstore.Key(fmt.Sprintf("batch/%08d/%d", n, i)) }

// numbered returns batch n.
func numbered(n int) *kvstore.Batch {
	var b kvstore.Batch
	for i := range batchKeys(n) {
		b.Put(batchKey(n, i), batchValue(n))
	}
	b.Put("last", []byte(strconv.Itoa(n)))
	return &b
}

// lastBatch returns the number of the last batch that s holds; 0 if none.
func lastBatch(ctx context.Context, s kvstore.Store) (int, error) {
	item, err := s.Get(ctx, "last")
	if errors.Is(err, kvstore.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(item.Value))
}

// A child is a running process of this test binary.
type child struct {
	t     *testing.T
	cmd   *osexec.Cmd
	stdin io.Closer
	out   *bufio.Scanner
}

// start starts a child that does role with dir. It is killed when the test
// ends.
func start(t *testing.T, role, dir string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := osexec.Command(exe)
	cmd.Env = append(os.Environ(), childEnv+"="+role+":"+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: cmd, stdin: in, out: bufio.NewScanner(out)}
	t.Cleanup(func() { c.kill() })
	return c
}

// line returns the next line that the child prints.
func (c *child) line() string {
	c.t.Helper()
	if !c.out.Scan() {
		c.t.Fatalf("child ended: %v", c.cmd.Wait())
	}
	if strings.HasPrefix(c.out.Text(), "error:") {
		c.t.Fatalf("child: %s", c.out.Text())
	}
	return c.out.Text()
}

// kill kills the child with SIGKILL, and returns the last line it printed.
func (c *child) kill() (last string) {
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.t.Errorf("kill: %v", err)
	}
	for c.out.Scan() {
		last = c.out.Text()
	}
	c.cmd.Wait() // it was killed
	return last
}
