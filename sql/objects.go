package sql

import (
	"time"

	gms "github.com/dolthub/go-mysql-server/sql"
)

// Views, triggers, procedures and events are not stored: there are none, and
// creating one is refused (1235). The interfaces have to be there because the
// layer of privileges around a database offers them always.
var (
	_ gms.ViewDatabase            = (*database)(nil)
	_ gms.TriggerDatabase         = (*database)(nil)
	_ gms.StoredProcedureDatabase = (*database)(nil)
	_ gms.EventDatabase           = (*database)(nil)
)

// GetViewDefinition implements sql.ViewDatabase.
func (d *database) GetViewDefinition(*gms.Context, string) (gms.ViewDefinition, bool, error) {
	return gms.ViewDefinition{}, false, nil
}

// AllViews implements sql.ViewDatabase.
func (d *database) AllViews(*gms.Context) ([]gms.ViewDefinition, error) { return nil, nil }

// CreateView implements sql.ViewDatabase.
func (d *database) CreateView(*gms.Context, string, string, string) error {
	return gms.ErrViewsNotSupported.New(d.Name())
}

// DropView implements sql.ViewDatabase.
func (d *database) DropView(_ *gms.Context, name string) error {
	return gms.ErrViewDoesNotExist.New(d.Name(), name)
}

// GetTriggers implements sql.TriggerDatabase.
func (d *database) GetTriggers(*gms.Context) ([]gms.TriggerDefinition, error) { return nil, nil }

// CreateTrigger implements sql.TriggerDatabase.
func (d *database) CreateTrigger(*gms.Context, gms.TriggerDefinition) error {
	return gms.ErrTriggersNotSupported.New(d.Name())
}

// DropTrigger implements sql.TriggerDatabase.
func (d *database) DropTrigger(_ *gms.Context, name string) error {
	return gms.ErrTriggerDoesNotExist.New(name)
}

// GetStoredProcedure implements sql.StoredProcedureDatabase.
func (d *database) GetStoredProcedure(*gms.Context, string) (gms.StoredProcedureDetails, bool, error) {
	return gms.StoredProcedureDetails{}, false, nil
}

// GetStoredProcedures implements sql.StoredProcedureDatabase.
func (d *database) GetStoredProcedures(*gms.Context) ([]gms.StoredProcedureDetails, error) {
	return nil, nil
}

// SaveStoredProcedure implements sql.StoredProcedureDatabase.
func (d *database) SaveStoredProcedure(*gms.Context, gms.StoredProcedureDetails) error {
	return gms.ErrStoredProceduresNotSupported.New(d.Name())
}

// DropStoredProcedure implements sql.StoredProcedureDatabase.
func (d *database) DropStoredProcedure(_ *gms.Context, name string) error {
	return gms.ErrStoredProcedureDoesNotExist.New(name)
}

// GetEvent implements sql.EventDatabase.
func (d *database) GetEvent(*gms.Context, string) (gms.EventDefinition, bool, error) {
	return gms.EventDefinition{}, false, nil
}

// GetEvents implements sql.EventDatabase.
func (d *database) GetEvents(*gms.Context) ([]gms.EventDefinition, any, error) { return nil, nil, nil }

// SaveEvent implements sql.EventDatabase.
func (d *database) SaveEvent(*gms.Context, gms.EventDefinition) (bool, error) {
	return false, gms.ErrEventsNotSupported.New(d.Name())
}

// DropEvent implements sql.EventDatabase.
func (d *database) DropEvent(_ *gms.Context, name string) error {
	return gms.ErrEventDoesNotExist.New(name)
}

// UpdateEvent implements sql.EventDatabase.
func (d *database) UpdateEvent(_ *gms.Context, name string, _ gms.EventDefinition) (bool, error) {
	return false, gms.ErrEventDoesNotExist.New(name)
}

// UpdateLastExecuted implements sql.EventDatabase.
func (d *database) UpdateLastExecuted(_ *gms.Context, name string, _ time.Time) error {
	return gms.ErrEventDoesNotExist.New(name)
}

// NeedsToReloadEvents implements sql.EventDatabase.
func (d *database) NeedsToReloadEvents(*gms.Context, any) (bool, error) { return false, nil }
