package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"syscall"
)

// readyVariable names, in the environment of a process in the background, the
// descriptor on which its starter waits for one line.
const readyVariable = "WSFS_READY_FD"

// readyWord is that line; anything else is the process' error message.
const readyWord = "ready"

// runInBackground starts this command line again with --foreground, in a
// session of its own and without a terminal, and returns when that process
// can serve, or with the reason why not.
func runInBackground() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd := osexec.Command(exe, os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), readyVariable+"=3")
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	w.Close()
	if err != nil {
		return err
	}
	return awaitReady(cmd, r)
}

// awaitReady waits for the line, or for the end of a process that could not
// write one.
func awaitReady(cmd *osexec.Cmd, r io.Reader) error {
	line, err := bufio.NewReader(r).ReadString('\n')
	if line = strings.TrimSpace(line); line == readyWord {
		return cmd.Process.Release()
	}
	waited := cmd.Wait()
	if line != "" {
		return errors.New(line)
	}
	return fmt.Errorf("the process in the background ended before it could serve: %w", errors.Join(waited, err))
}

// A starter is the process that waits for this one to be ready, if any.
type starter struct{ file *os.File }

// findStarter returns the starter that the environment names, and takes it out
// of there.
func findStarter() starter {
	fd, err := strconv.Atoi(os.Getenv(readyVariable))
	os.Unsetenv(readyVariable)
	if err != nil || fd < 3 {
		return starter{}
	}
	syscall.CloseOnExec(fd)
	return starter{os.NewFile(uintptr(fd), "ready")}
}

// waits reports whether this is a process in the background.
func (s starter) waits() bool { return s.file != nil }

// tell sends the starter one line, once.
func (s starter) tell(line string) error {
	if s.file == nil {
		return nil
	}
	_, err := fmt.Fprintln(s.file, strings.ReplaceAll(line, "\n", "; "))
	return errors.Join(err, s.file.Close())
}
