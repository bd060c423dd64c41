package transport

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// benchModes are the ways to serve that are compared; the first is what the
// others are divided by. WSFS_BENCH_MODES picks some.
var benchModes = []struct {
	name string
	o    Options
}{
	{"plain", Options{Plain: true}},
	{"loop", Options{}},
	{"two", Options{Readers: 2}},
	{"four", Options{Readers: 4}},
}

// A roundTrip is a cell of the comparison.
type roundTrip struct {
	op      string
	clients int
}

// BenchmarkRoundTrips compares the ways to serve, in turns within one run, and
// prints for each the median ratio to fuse.Server.
// The load comes from another process. WSFS_BENCH_TIME is the length of one
// turn, WSFS_BENCH_BUSY the number of processes that burn a CPU meanwhile.
func BenchmarkRoundTrips(b *testing.B) {
	length, rounds := "250ms", 7
	if s := os.Getenv("WSFS_BENCH_TIME"); s != "" {
		length = s
	}
	chosen := strings.Split(cmpOr(os.Getenv("WSFS_BENCH_MODES"), "plain,loop"), ",")
	burn(b, os.Getenv("WSFS_BENCH_BUSY"))
	servers := map[string]*Server{}
	for _, m := range benchModes {
		if slices.Contains(chosen, m.name) {
			fs := newTestFS("big")
			fs.files[fs.names["big"]].data = make([]byte, 16<<20)
			servers[m.name] = serve(b, fs, m.o)
		}
	}
	for b.Loop() {
		for _, cell := range cells(os.Getenv("WSFS_BENCH_CELLS"), []roundTrip{
			{"getattr", 1}, {"getattr", 4}, {"getattr", 16}, {"read", 1}, {"read", 8}, {"create", 1}, {"create", 8},
			{"sequential", 1},
		}) {
			times, cpus := map[string][]float64{}, map[string][]float64{}
			for range rounds {
				for _, name := range chosen {
					took, cpu := measure(b, servers[name], cell, length)
					times[name] = append(times[name], took)
					cpus[name] = append(cpus[name], cpu)
				}
			}
			report(b, cell, chosen, times, cpus)
		}
	}
}

// cells returns those of all that are chosen, "getattr-1,read-8", or all.
func cells(chosen string, all []roundTrip) []roundTrip {
	if chosen == "" {
		return all
	}
	return slices.DeleteFunc(all, func(c roundTrip) bool {
		return !slices.Contains(strings.Split(chosen, ","), fmt.Sprintf("%s-%d", c.op, c.clients))
	})
}

// measure returns the wall time and the server's CPU time of one operation, in
// microseconds.
func measure(b *testing.B, s *Server, cell roundTrip, length string) (took, cpu float64) {
	before := cpuTime()
	out, err := runClient(b, "bench", s.Mountpoint(), cell.op, strconv.Itoa(cell.clients), length)
	if err != nil {
		b.Fatalf("client: %v: %s", err, out)
	}
	var n, elapsed float64
	if _, err := fmt.Sscan(out, &n, &elapsed); err != nil || n == 0 {
		b.Fatalf("client: got %q, want a count and a time", out)
	}
	return elapsed / n * float64(cell.clients), float64((cpuTime() - before).Microseconds()) / n
}

func report(b *testing.B, cell roundTrip, chosen []string, times, cpus map[string][]float64) {
	var line strings.Builder
	fmt.Fprintf(&line, "%-8s %2d clients:", cell.op, cell.clients)
	for _, name := range chosen {
		ratio := median(ratios(times[name], times[chosen[0]]))
		b.ReportMetric(ratio, fmt.Sprintf("%s-%d-%s/%s", cell.op, cell.clients, name, chosen[0]))
		fmt.Fprintf(&line, "  %s %.2f (%.1f us, server cpu %.1f us)",
			name, ratio, median(slices.Clone(times[name])), median(cpus[name]))
	}
	fmt.Println(line.String())
}

// ratios divides round by round, so that what disturbs the machine for longer
// than a round disturbs both.
func ratios(x, y []float64) []float64 {
	r := make([]float64, len(x))
	for i := range x {
		r[i] = x[i] / y[i]
	}
	return r
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

func cmpOr(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// cpuTime is the CPU time that this process has used.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// burn starts n processes that each keep a CPU busy until the benchmark ends.
func burn(b *testing.B, n string) {
	count, err := strconv.Atoi(cmpOr(n, "0"))
	if err != nil {
		b.Fatal(err)
	}
	for range count {
		startClient(b, "burn", "")
	}
}
