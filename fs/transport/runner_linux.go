package transport

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// A runner is a child process that starts fusermount3 for this one, since a
// process that serves a mount must not fork: between fork and exec the child
// may close a file on the mount and wait for an answer of its parent, which
// does not run on before the exec. It ends when this process does.
type runner struct {
	mu     sync.Mutex // one job at a time
	socket int        // immutable
}

// serving counts the mounts that this process has.
var serving atomic.Int32

// runnerMark is set in the environment of the child to tell it what it is.
const runnerMark = "_WSFS_TRANSPORT_RUNNER"

// runnerSocket is the descriptor on which the child gets jobs.
const runnerSocket = 3

// outcome is the runner's answer to a job.
type outcome struct {
	Text  string
	Errno syscall.Errno // 0: done
}

// maxMessage bounds a job and its outcome: a path, options, what fusermount3 said.
const maxMessage = 64 << 10

func init() {
	if os.Getenv(runnerMark) == "" {
		return
	}
	os.Unsetenv(runnerMark)
	os.Exit(runJobs(runnerSocket))
}

var (
	runnerMu  sync.Mutex
	runnerOne *runner // protected by runnerMu; lives as long as the process
)

// theRunner returns the process' runner and starts it the first time, which
// must be before this process serves a mount: else EDEADLK.
func theRunner() (*runner, error) {
	runnerMu.Lock()
	defer runnerMu.Unlock()
	if runnerOne != nil {
		return runnerOne, nil
	}
	if serving.Load() > 0 {
		return nil, fmt.Errorf("a process that serves a mount cannot start fusermount3: %w", syscall.EDEADLK)
	}
	r, err := startRunner()
	if err != nil {
		return nil, err
	}
	runnerOne = r
	return r, nil
}

// startRunner runs this program again, in a session of its own so that a ^C
// for this process leaves it alone.
func startRunner() (*runner, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	remote := os.NewFile(uintptr(pair[1]), "runner")
	defer remote.Close()
	cmd := osexec.Command("/proc/self/exe")
	cmd.Args = []string{"wsfs-runner"}
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), runnerMark+"=1")
	cmd.ExtraFiles = []*os.File{remote}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		unix.Close(pair[0])
		return nil, err
	}
	go cmd.Wait() // only so that it is no zombie; a dead runner shows as EPIPE
	return &runner{socket: pair[0]}, nil
}

// run has the child perform j, with comm (or -1) handed over.
func (r *runner) run(j job, comm int) error {
	message, err := json.Marshal(j)
	if err != nil {
		return err
	}
	var rights []byte
	if comm >= 0 {
		rights = unix.UnixRights(comm)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if errno := ignoringEINTR(func() error {
		return unix.Sendmsg(r.socket, message, rights, nil, unix.MSG_NOSIGNAL)
	}); errno != 0 {
		return fmt.Errorf("the runner of fusermount3 has died: %w", errno)
	}
	answer := make([]byte, maxMessage)
	var n int
	if errno := ignoringEINTR(func() (err error) {
		n, err = unix.Read(r.socket, answer)
		return err
	}); errno != 0 || n == 0 {
		return fmt.Errorf("the runner of fusermount3 has died: %w", syscall.EPIPE)
	}
	var o outcome
	if err := json.Unmarshal(answer[:n], &o); err != nil {
		return err
	}
	if o.Errno != 0 {
		return fmt.Errorf("%s: %w", o.Text, o.Errno)
	}
	return nil
}

// runJobs is the child: it performs jobs until the parent is gone and returns
// the exit code.
func runJobs(socket int) int {
	unix.CloseOnExec(socket)
	message := make([]byte, maxMessage)
	control := make([]byte, unix.CmsgSpace(4))
	for {
		n, oobn, _, _, err := unix.Recvmsg(socket, message, control, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return 0
		}
		answer, err := json.Marshal(runJob(message[:n], control[:oobn]))
		if err != nil {
			return 1
		}
		if _, err := unix.Write(socket, answer); err != nil {
			return 1
		}
	}
}

// runJob performs the job in message with the descriptor in control, if any.
func runJob(message, control []byte) outcome {
	var j job
	if err := json.Unmarshal(message, &j); err != nil {
		return outcome{Text: err.Error(), Errno: syscall.EPROTO}
	}
	var comm *os.File
	if fd, err := descriptorIn(control); err == nil {
		comm = os.NewFile(uintptr(fd), "comm")
		defer comm.Close()
	}
	err := j.perform(comm)
	if err == nil {
		return outcome{}
	}
	errno, ok := errors.AsType[syscall.Errno](err)
	if !ok {
		errno = syscall.EPERM
	}
	return outcome{Text: err.Error(), Errno: errno}
}
