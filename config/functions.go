package config

// FunctionSettings are the variables of a session by which operators and functions evaluate, as the record of a job keeps
// them.
type FunctionSettings struct {
	// DivPrecisionIncrement is the number of digits that a division adds, 0 to 30.
	DivPrecisionIncrement int `json:"div_precision_increment"`
	// DefaultWeekFormat is the mode of WEEK(), "0" to "7".
	DefaultWeekFormat string `json:"default_week_format"`
	// BlockEncryptionMode is that of AES_ENCRYPT, such as "aes-128-ecb".
	BlockEncryptionMode string `json:"block_encryption_mode"`
}
