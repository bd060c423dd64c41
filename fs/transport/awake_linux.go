package transport

import (
	"log/slog"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// latencyFile takes requests to bound the time that a CPU needs to wake up
	// (PM QoS, admin-guide/pm/cpuidle): a number of microseconds in binary,
	// which counts as long as the file stays open. Root may open it.
	latencyFile = "/dev/cpu_dma_latency"
	// idleDriver names what halts idle CPUs.
	idleDriver = "/sys/devices/system/cpu/cpuidle/current_driver"

	// rush is the number of requests in a slowTick from which on CPUs are kept
	// awake: one in a millisecond.
	rush = uint64(slowTick / time.Millisecond)
)

// A vigil keeps idle CPUs awake while requests come thick and fast.
//
// The CPU of a virtual machine halts by leaving the machine, and waking it up
// again through the hypervisor takes several times as long as what the reader
// or its client then does. So idle CPUs are asked to poll while there is a
// rush, and may halt again soon after it. On hardware, halting lightly is
// cheap and polling is not; there nothing is asked for.
type vigil struct {
	file string // where to ask, "" for nowhere
	fd   int    // of file while it is open, else -1
	log  *slog.Logger
}

// newVigil returns a vigil over a virtual machine's CPUs, one that does nothing
// elsewhere.
func newVigil(log *slog.Logger) *vigil {
	v := &vigil{fd: -1, log: log}
	if driver, err := os.ReadFile(idleDriver); err == nil && strings.TrimSpace(string(driver)) == "haltpoll" {
		v.file = latencyFile
	}
	return v
}

// keep has idle CPUs stay awake from now on, or lets them halt.
func (v *vigil) keep(awake bool) {
	switch {
	case !awake && v.fd >= 0:
		unix.Close(v.fd)
		v.fd = -1
	case awake && v.fd < 0 && v.file != "":
		if err := v.ask(); err != nil {
			v.log.Debug("fuse: idle CPUs halt", "err", err)
			v.file = ""
		}
	}
}

// ask asks for a latency of 0 and leaves the file open.
func (v *vigil) ask() (err error) {
	v.fd, err = unix.Open(v.file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if _, err = unix.Write(v.fd, make([]byte, 4)); err != nil {
		unix.Close(v.fd)
		v.fd = -1
	}
	return err
}
