package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"fastddl/ctl"
	"fastddl/ctl/connect"
	"fastddl/internal/terminal"
	"fastddl/load/dump"
)

// ctlName is the name of the command whose options are those of the mysql client.
const ctlName = "ctl"

// ctlCommand is what the commands below ctl share.
type ctlCommand struct {
	flags *connect.Flags
	json  bool
}

func newCtlCommand() *cobra.Command {
	c := &ctlCommand{}
	cmd := &cobra.Command{
		Use:   ctlName,
		Short: "Command index builds of a server: explain, run, watch, pause, cancel, publish",
		Long: "Command index builds of a fastddl server. It connects as the mysql client does, by the same options, ~/.my.cnf (groups client, mysql, fastddl) and $MYSQL_PWD, " +
			"to 127.0.0.1:4000 as root by default. A build outlives this command: it ends only when it is cancelled.\n\n" +
			"Exit codes: 0 done, 1 error, 2 wrong command line, 3 cancelled, 4 paused or left running, 5 does not fit (explain).",
		Example: "  fastddl ctl -D shop explain 'ALTER TABLE orders ADD INDEX by_customer (customer)'\n" +
			"  fastddl ctl -h db1 -u admin -p -D shop run 'ALTER TABLE orders ADD INDEX by_customer (customer)'\n  fastddl ctl jobs",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := cmd.PersistentFlags()
	f.Bool("help", false, "show help") // -h is --host, as in the mysql client
	f.BoolVar(&c.json, "json", false, "write JSON: one document, of run and watch one object a line")
	c.flags = connect.Bind(f)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return ctl.UsageError(err) })
	cmd.AddCommand(c.explain(), c.run(), c.jobs(), c.watch(), c.command("pause", "Pause builds"), c.command("resume", "Resume builds that are paused"),
		c.command("cancel", "Cancel builds, and remove what they have built"), c.alter(), c.publish(), c.history(), c.load(), c.backup())
	for _, sub := range append(cmd.Commands(), cmd) {
		checked := sub.Args
		sub.Args = func(cmd *cobra.Command, args []string) error { return ctl.UsageError(checked(cmd, args)) }
	}
	return cmd
}

// options returns how to connect. An error is one of the command line or of an option file.
func (c *ctlCommand) options(cmd *cobra.Command) (connect.Options, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // there is no ~/.my.cnf then
	}
	opts, err := c.flags.Resolve(connect.Environment{
		Getenv: os.Getenv, Home: home, ReadPassword: readPassword,
		Warn: func(text string) { fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+terminal.Clean(text)) },
	})
	return opts, ctl.UsageError(err)
}

// readPassword asks for a password on the terminal.
func readPassword() (_ string, err error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return "", fmt.Errorf("there is no terminal to ask on: %w", err)
	}
	defer func() { err = errors.Join(err, tty.Close()) }()
	if _, err := io.WriteString(tty, "Enter password: "); err != nil {
		return "", err
	}
	password, err := term.ReadPassword(int(tty.Fd()))
	if err != nil {
		return "", err
	}
	_, err = io.WriteString(tty, "\n")
	return string(password), err
}

// with connects and executes a command, whose context ends with a signal.
func (c *ctlCommand) with(cmd *cobra.Command, do func(ctx context.Context, client *ctl.Client) error) (err error) {
	opts, err := c.options(cmd)
	if err != nil {
		return err
	}
	client, err := ctl.Dial(cmd.Context(), opts, ctl.NewOutput(cmd.OutOrStdout(), cmd.ErrOrStderr(), c.json))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	return do(cmd.Context(), client)
}

// steered is with for a command that decides itself what a signal does.
func (c *ctlCommand) steered(cmd *cobra.Command, do func(ctx context.Context, client *ctl.Client) error) error {
	return c.with(cmd, func(ctx context.Context, client *ctl.Client) error {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, endSignals()...)
		defer signal.Stop(signals)
		client.Signals = signals
		if client.Moves && terminal.Is(os.Stdin) {
			client.Lines = func() <-chan string { return linesOf(os.Stdin) }
		}
		return do(context.WithoutCancel(ctx), client)
	})
}

// linesOf returns the lines that a user types. Nothing reads the terminal before the first question: the shell would stop a command in the
// background that does.
func linesOf(r io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		for in := bufio.NewScanner(r); in.Scan(); {
			lines <- in.Text()
		}
	}()
	return lines
}

// statementOf returns the statement of an argument; that of standard input for -.
func statementOf(cmd *cobra.Command, arg string) (string, error) {
	if arg == "-" {
		text, err := io.ReadAll(cmd.InOrStdin())
		if err != nil {
			return "", fmt.Errorf("read the statement: %w", err)
		}
		arg = string(text)
	}
	if arg = strings.TrimSpace(arg); arg == "" {
		return "", ctl.UsageError(errors.New("the statement is empty"))
	}
	return arg, nil
}

func (c *ctlCommand) explain() *cobra.Command {
	return &cobra.Command{
		Use:   "explain STATEMENT",
		Short: "Show what a build would cost, and whether it fits; - reads the statement from standard input",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			statement, err := statementOf(cmd, args[0])
			if err != nil {
				return err
			}
			return c.with(cmd, func(ctx context.Context, client *ctl.Client) error { return client.Explain(ctx, statement) })
		},
	}
}

func (c *ctlCommand) run() *cobra.Command {
	var settings settingFlags
	cmd := &cobra.Command{
		Use:   "run STATEMENT",
		Short: "Execute a statement and show the progress of its build; - reads the statement from standard input",
		Long: "Execute a statement that adds indexes, and show the progress of the build. Ctrl-C asks whether to cancel it, pause it, or leave it running; a second one, " +
			"SIGTERM, and Ctrl-C without a terminal leave it running. A lost connection is made again, and the build is followed.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			statement, err := statementOf(cmd, args[0])
			if err != nil {
				return err
			}
			opts := ctl.RunOptions{Statement: statement, Settings: settings.given(cmd)}
			if err := opts.Check(); err != nil {
				return ctl.UsageError(err)
			}
			return c.steered(cmd, func(ctx context.Context, client *ctl.Client) error { return client.Run(ctx, opts) })
		},
	}
	settings.bind(cmd.Flags(), ctl.RunSettings)
	return cmd
}

func (c *ctlCommand) jobs() *cobra.Command {
	return &cobra.Command{
		Use:   "jobs",
		Short: "List the builds that have not ended",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.with(cmd, func(ctx context.Context, client *ctl.Client) error { return client.Jobs(ctx) })
		},
	}
}

func (c *ctlCommand) watch() *cobra.Command {
	return &cobra.Command{
		Use:   "watch [JOB]",
		Short: "Show the progress of a build until it has ended, or of all builds",
		Args:  cobra.MatchAll(cobra.MaximumNArgs(1), numbers),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.steered(cmd, func(ctx context.Context, client *ctl.Client) error {
				if len(args) == 0 {
					return client.WatchAll(ctx)
				}
				return client.Watch(ctx, parseNumbers(args)[0])
			})
		},
	}
}

// numbers checks that arguments are numbers of jobs.
func numbers(_ *cobra.Command, args []string) error {
	for _, arg := range args {
		if n, err := strconv.ParseInt(arg, 10, 64); err != nil || n < 1 {
			return fmt.Errorf("%q is not the number of a job", arg)
		}
	}
	return nil
}

// parseNumbers returns what numbers has checked.
func parseNumbers(args []string) []int64 {
	ids := make([]int64, len(args))
	for i, arg := range args {
		ids[i], _ = strconv.ParseInt(arg, 10, 64)
	}
	return ids
}

// command is one of ADMIN's for some jobs.
func (c *ctlCommand) command(name, short string) *cobra.Command {
	return &cobra.Command{
		Use:   name + " JOB...",
		Short: short,
		Args:  cobra.MatchAll(cobra.MinimumNArgs(1), numbers),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd, func(ctx context.Context, client *ctl.Client) error {
				return client.Command(ctx, strings.ToUpper(name), parseNumbers(args))
			})
		},
	}
}

func (c *ctlCommand) alter() *cobra.Command {
	var settings settingFlags
	cmd := &cobra.Command{
		Use:   "alter JOB",
		Short: "Change settings of a build, all or none",
		Args:  cobra.MatchAll(cobra.ExactArgs(1), numbers),
		RunE: func(cmd *cobra.Command, args []string) error {
			given := settings.given(cmd)
			if len(given) == 0 {
				return ctl.UsageError(errors.New("nothing to change: give a setting"))
			}
			return c.with(cmd, func(ctx context.Context, client *ctl.Client) error {
				return client.Alter(ctx, parseNumbers(args)[0], given)
			})
		},
	}
	settings.bind(cmd.Flags(), ctl.JobSettings)
	return cmd
}

func (c *ctlCommand) publish() *cobra.Command {
	return &cobra.Command{
		Use:   "publish JOB",
		Short: "Publish the indexes of a build that was run with --publish manual",
		Args:  cobra.MatchAll(cobra.ExactArgs(1), numbers),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.with(cmd, func(ctx context.Context, client *ctl.Client) error {
				return client.Publish(ctx, parseNumbers(args)[0])
			})
		},
	}
}

func (c *ctlCommand) history() *cobra.Command {
	limit := 20
	cmd := &cobra.Command{
		Use:   "history [JOB]",
		Short: "List the builds that have ended, or show all of one: costs, waits, rows with errors, commands",
		Args:  cobra.MatchAll(cobra.MaximumNArgs(1), numbers),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 {
				return ctl.UsageError(fmt.Errorf("limit %d: at least 1 is needed", limit))
			}
			return c.with(cmd, func(ctx context.Context, client *ctl.Client) error {
				if len(args) == 0 {
					return client.History(ctx, limit)
				}
				return client.Show(ctx, parseNumbers(args)[0])
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "list at most this many `JOBS`")
	return cmd
}

func (c *ctlCommand) load() *cobra.Command {
	opts := dump.Default()
	flags := newLoadFlags(opts)
	cmd := &cobra.Command{
		Use:   "load DIR|FILE...",
		Short: "Load a dump, as fastddl load does; -D is the database of files that name none",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.json {
				return ctl.UsageError(errors.New("load writes no JSON"))
			}
			target, err := c.options(cmd)
			if err != nil {
				return err
			}
			opts.Source.Paths, opts.Source.Database = args, target.Database
			target.Database = "" // the load may create it
			if opts.Target.Config, err = target.Config("fastddl ctl load"); err != nil {
				return err
			}
			opts.Target.Addr, flags.socket = target.Addr(), target.Socket
			return loadInto(cmd, opts, flags)
		},
	}
	bindLoad(cmd.Flags(), &opts, &flags)
	return cmd
}

func (c *ctlCommand) backup() *cobra.Command {
	var opts ctl.BackupOptions
	cmd := &cobra.Command{
		Use:   "backup FOLDER",
		Short: "Take a backup of all databases to a folder of the server; Ctrl-C ends it",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if opts.Folder = args[0]; !filepath.IsAbs(opts.Folder) && !strings.Contains(opts.Folder, "://") {
				return ctl.UsageError(fmt.Errorf("%s: the folder is one of the server: give its whole path", opts.Folder))
			}
			return c.steered(cmd, func(ctx context.Context, client *ctl.Client) error { return client.Backup(ctx, opts) })
		},
	}
	cmd.Flags().UintVar(&opts.RateLimit, "rate-limit", 0, "copy at most this many `MB` per second; 0 is no limit")
	return cmd
}
