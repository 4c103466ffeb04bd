package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"
	"github.com/tikv/client-go/v2/oracle"

	"fastddl/config"
	"fastddl/kv/backup"
	"fastddl/server"
)

func newRestoreCommand() *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Make a store of a backup",
		Long: "Make a store, for a server of its own, of a backup that BACKUP DATABASE * has taken. The backup stays as it is. " +
			"The store is as of the backup's timestamp; it links the backup's files where both are on one file system, and copies them otherwise.",
		Example: "  fastddl restore --from /backups/monday --path ./data\n  fastddl server --path ./data",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case from == "":
				return errors.New("--from is missing: the folder of a backup")
			case to == "":
				return errors.New("--path is missing: the folder for the store, a new one")
			}
			log, err := server.InitLogging(config.Log{Level: "error", Format: "text"})
			if err != nil {
				return err
			}
			defer log.Close()
			restored, err := backup.Restore(cmd.Context(), from, to, log.Logger)
			if err != nil {
				return err
			}
			printRestored(cmd.OutOrStdout(), from, to, restored)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&from, "from", "", "`FOLDER` of the backup")
	f.StringVar(&to, "path", "", "`FOLDER` for the store: empty, or a new one")
	return cmd
}

func printRestored(w io.Writer, from, to string, r backup.Restored) {
	fmt.Fprintf(w, "restored %s of %s as of %s, in %s\n", bytesText(r.Bytes), from, timestampText(r.TS), r.Took.Round(10*time.Millisecond))
	if r.Linked > 0 {
		fmt.Fprintf(w, "%s of it are links to the backup's files: damage to them is damage to both\n", bytesText(r.Linked))
	}
	fmt.Fprintf(w, "start it: fastddl server --path %s\n", to)
}

// timestampText is a timestamp as a time and as a number.
func timestampText(ts uint64) string {
	return fmt.Sprintf("%s (timestamp %d)", oracle.GetTimeFromTS(ts).Format("2006-01-02 15:04:05.000 -07:00"), ts)
}

func bytesText(n int64) string { return units.BytesSize(float64(n)) }
