package transport

import (
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// mountByHelper has fusermount3 mount on point and takes the descriptor that
// it sends over a socket (its _FUSE_COMMFD).
func mountByHelper(point string, opts *fuse.MountOptions) (int, error) {
	r, err := theRunner()
	if err != nil {
		return -1, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(pair[0])
	err = r.run(job{Args: []string{"-o", helperOptions(opts), "--", point}}, pair[1])
	unix.Close(pair[1])
	if err != nil {
		return -1, err
	}
	return receiveDescriptor(pair[0])
}

// unmountByHelper has fusermount3 unmount point.
func unmountByHelper(point string, lazy bool) error {
	args := []string{"-u"}
	if lazy {
		args = append(args, "-z")
	}
	j := job{Args: append(args, "--", point)}
	if serving.Load() == 0 {
		return j.perform(nil)
	}
	r, err := theRunner()
	if err != nil {
		return err
	}
	return r.run(j, -1)
}

// helperOptions is the value of fusermount3's -o. It adds fd, rootmode, user_id
// and group_id itself, and nosuid and nodev.
func helperOptions(opts *fuse.MountOptions) string {
	all := append([]string{}, opts.Options...)
	if opts.AllowOther {
		all = append(all, "allow_other")
	}
	all = append(all, "fsname="+source(opts), "subtype="+opts.Name, "max_read="+strconv.Itoa(opts.MaxWrite))
	escape := strings.NewReplacer(`\`, `\\`, `,`, `\,`)
	for i, o := range all {
		all[i] = escape.Replace(o)
	}
	return strings.Join(all, ",")
}

// receiveDescriptor reads the one descriptor that comes with a message.
func receiveDescriptor(socket int) (int, error) {
	var data [4]byte
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, data[:], control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, err
	}
	return descriptorIn(control[:n])
}

// descriptorIn returns the descriptor in a message's control data, EPROTO if
// there is none.
func descriptorIn(control []byte) (int, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return -1, err
	}
	for _, m := range messages {
		if fds, err := unix.ParseUnixRights(&m); err == nil && len(fds) == 1 {
			return fds[0], nil
		}
	}
	return -1, fmt.Errorf("no descriptor came with the message: %w", syscall.EPROTO)
}

// A job is one call of fusermount3.
type job struct {
	Args []string
}

// perform runs fusermount3 with comm, if any, as the descriptor that it sends
// the mounted device over. The error holds what it said and an errno.
func (j job) perform(comm *os.File) error {
	bin, err := helperPath()
	if err != nil {
		return err
	}
	var said strings.Builder
	cmd := osexec.Command(bin, j.Args...)
	cmd.Dir = "/"
	cmd.Stderr = &said
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if comm != nil {
		cmd.Env = append(cmd.Env, "_FUSE_COMMFD=3")
		cmd.ExtraFiles = []*os.File{comm}
	}
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(said.String())
		return fmt.Errorf("%s (%v): %w", text, err, helperErrno(text))
	}
	return nil
}

// helperPath finds fusermount3 in PATH, else where distributions have it.
func helperPath() (string, error) {
	for _, name := range []string{"fusermount3", "/usr/bin/fusermount3", "/bin/fusermount3"} {
		if bin, err := osexec.LookPath(name); err == nil || errors.Is(err, osexec.ErrDot) {
			return bin, nil
		}
	}
	return "", fmt.Errorf("fusermount3 is not installed: %w", syscall.ENOENT)
}

// helperErrno finds the errno in what fusermount3 wrote: it only tells by
// strerror's text. Anything else is EPERM, its usual reason.
func helperErrno(text string) syscall.Errno {
	for _, errno := range []syscall.Errno{
		syscall.EBUSY, syscall.EINVAL, syscall.ENOENT, syscall.EACCES, syscall.ENOTDIR, syscall.ENODEV, syscall.ENOTCONN,
	} {
		if strings.Contains(strings.ToLower(text), strings.ToLower(errno.Error())) {
			return errno
		}
	}
	if strings.Contains(text, "not found in") {
		return syscall.EINVAL // "entry for X not found in /etc/mtab": not mounted
	}
	return syscall.EPERM
}
