package badgerkv

import (
	"fmt"
	"log/slog"
	"strings"
)

// A logger is badger's Logger on top of slog. Badger's Info is of no interest
// to the user of a daemon: it goes to debug.
type logger struct{ log *slog.Logger }

func (l logger) Errorf(format string, args ...any)   { l.log.Warn(line(format, args)) }
func (l logger) Warningf(format string, args ...any) { l.log.Warn(line(format, args)) }
func (l logger) Infof(format string, args ...any)    { l.log.Debug(line(format, args)) }
func (l logger) Debugf(format string, args ...any)   { l.log.Debug(line(format, args)) }

func line(format string, args []any) string {
	return "badger: " + strings.TrimSpace(fmt.Sprintf(format, args...))
}
