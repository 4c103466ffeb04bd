package sql

import (
	"context"
	"fmt"

	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
)

// grantsBlob names the catalog's record of users and privileges.
const grantsBlob = "grants"

// grantStore persists users and privileges.
type grantStore struct{ engine *Engine }

var _ mysql_db.MySQLDbPersistence = (*grantStore)(nil)

// Persist implements mysql_db.MySQLDbPersistence.
func (g *grantStore) Persist(ctx *gms.Context, data []byte) error {
	if err := g.engine.catalog.SetBlob(ctx, grantsBlob, data); err != nil {
		return fmt.Errorf("store privileges: %w", err)
	}
	return nil
}

// loadUsers reads the persisted users. A store without any has root, who may log
// in from this machine without a password.
func (e *Engine) loadUsers(ctx context.Context) error {
	users := e.gms.Analyzer.Catalog.MySQLDb
	users.SetPersister(&grantStore{e})
	data, err := e.catalog.Blob(ctx, grantsBlob)
	if err != nil {
		return fmt.Errorf("load privileges: %w", err)
	}
	if len(data) == 0 {
		users.AddRootAccount()
		return nil
	}
	if err := users.LoadData(gms.NewEmptyContext(), data); err != nil {
		return fmt.Errorf("load privileges: %w", err)
	}
	return nil
}
