// Package connect connects a command to a server as the mysql client does: by the options of the same names, on the command line, in
// option files (~/.my.cnf), and in the environment.
//
// # Differences from the mysql client
//
//   - Without an option the server is 127.0.0.1:4000, the account root. Option files of the system (/etc/my.cnf) are not read: they
//     are for another server of the machine.
//   - A port given on the command line means TCP, also where an option file names a socket.
//   - --login-path is refused: its files have a password that is only obfuscated, in a format of MySQL's.
//
// # Invariants
//
//   - An option of TLS that is not supported is refused, never passed over: a connection is at least as safe as was asked for.
//   - A file that others may write is not read.
package connect
