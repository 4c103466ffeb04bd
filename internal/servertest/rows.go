package servertest

import "database/sql"

// ReadRows reads all rows as text, null for NULL, and closes them.
func ReadRows(rows *sql.Rows, null string) (all [][]string, err error) {
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	values, targets := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for i := range values {
		targets[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return nil, err
		}
		row := make([]string, len(columns))
		for i, v := range values {
			if row[i] = null; v.Valid {
				row[i] = v.String
			}
		}
		all = append(all, row)
	}
	return all, rows.Err()
}
