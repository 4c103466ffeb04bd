package server

import (
	"fmt"
	"net/http"
	"net/netip"

	"fastddl/api"
	"fastddl/config"
	"fastddl/ddl/status"
	"fastddl/sql/perftables"
)

// openAPI makes the API over the node, and TiDB's server. It is closed by stop.
func (s *Server) openAPI() (err error) {
	s.apiSessions = newAPISessions(s.node, s.tidb)
	s.node.driver.api.Store(s.apiSessions)
	columns := map[string][]string{perftables.LoadTable: perftables.LoadColumns()}
	for _, t := range status.PublicTables() {
		columns[t.Name] = t.Columns
	}
	s.api, err = api.New(api.Options{
		Sessions: s.apiSessions, Caller: apiCaller, Health: s.Health, Log: s.log.Logger, Version: s.opts.Version,
		Settings: apiSettings(), Columns: columns,
	})
	if err != nil {
		return fmt.Errorf("open the API: %w", err)
	}
	s.parts.add(func() error { s.api.Close(); return nil }) // of a start that fails; stop has closed it otherwise
	return nil
}

// apiCaller is the client of a request.
func apiCaller(r *http.Request) api.Caller {
	c := api.Caller{TLS: tlsState(r), Local: fromHere(r)}
	if addr, err := netip.ParseAddrPort(callerOf(r).String()); err == nil {
		c.Addr = addr
	}
	return c
}

// kindNames are what the API calls kinds of variables.
var kindNames = map[config.VarKind]string{
	config.KindBool: "bool", config.KindEnum: "enum", config.KindInt: "int", config.KindByteSize: "bytes", config.KindDuration: "duration",
	config.KindText: "text",
}

// apiSettings are the global variables of builds.
func apiSettings() (out []api.Setting) {
	for i := range config.SysVars {
		v := &config.SysVars[i]
		out = append(out, api.Setting{Name: v.Name, Kind: kindNames[v.Kind], Default: v.Default, Values: v.Values, Doc: v.Comment})
	}
	return out
}
