package sbtest

import (
	"errors"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

func TestConflictsAreTheRetryableErrors(t *testing.T) {
	require.True(t, isConflict(&mysql.MySQLError{Number: 1213}))
	require.False(t, isConflict(&mysql.MySQLError{Number: 1062}))
	require.False(t, isConflict(errors.New("1213")))
}
