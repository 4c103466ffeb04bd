// Command fastddl is a SQL node that speaks MySQL's protocol and builds indexes
// online.
//
//	fastddl server          serves MySQL clients
//	fastddl ctl             commands index builds of a server
//	fastddl load            loads a dump
//	fastddl demo            builds an index under load and shows what it costs
//	fastddl bench addindex  measures ADD INDEX; figures as JSON
//	fastddl restore         makes a store of a backup
//	fastddl backup verify   reads a backup and looks for damage
//	fastddl version         prints the build
//
// It ends with exit code 1 and one line on standard error when something went
// wrong. Those of ctl say more, see fastddl/ctl.
package main
