package main

import "errors"

// Exit codes. They are part of the interface: scripts depend on them.
const (
	exitOK      = 0 // it was done
	exitFailed  = 1 // it could not be done; the message says why
	exitUsage   = 2 // the command line is wrong; nothing was tried
	exitDamaged = 3 // check found what it could not or was not asked to repair
	exitBusy    = 4 // the mount is in use; with --lazy or after a signal it was detached all the same
)

// exitHelp is the part of each help text that lists the codes.
const exitHelp = `
Exit codes: 0 done, 1 failed, 2 wrong usage, 3 damage found (check), 4 mount busy.`

// An exitError is an error with an exit code of its own.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// exitCode returns the code that err asks for.
func exitCode(err error) int {
	var e *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &e):
		return e.code
	default:
		return exitFailed
	}
}

// usage marks err as one of the command line.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{exitUsage, err}
}
