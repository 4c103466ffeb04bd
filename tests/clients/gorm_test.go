package clients

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

// The models as they are created first.
type (
	gormCompany struct {
		ID    uint       `gorm:"primaryKey"`
		Name  string     `gorm:"size:100;uniqueIndex"`
		Users []gormUser `gorm:"foreignKey:CompanyID"`
	}
	gormUser struct {
		gorm.Model
		Name      string `gorm:"size:40;not null"`
		Email     *string
		Born      time.Time `gorm:"type:date"`
		Balance   string    `gorm:"type:decimal(20,4);default:0"`
		Photo     []byte
		CompanyID uint
		Company   gormCompany
		Card      gormCard
		Languages []gormLanguage `gorm:"many2many:gorm_speaks;"`
	}
	gormCard struct {
		ID         uint
		Number     string `gorm:"size:20"`
		GormUserID uint
	}
	gormLanguage struct {
		Code string `gorm:"primaryKey;size:8"`
	}
)

// gormUserLater is gormUser after the application's next release: longer, with
// indexes, and with columns that others must not hold twice.
type gormUserLater struct {
	gorm.Model
	Name      string    `gorm:"size:80;not null;index:idx_name_born,priority:1"`
	Email     *string   `gorm:"size:191;uniqueIndex"`
	Born      time.Time `gorm:"type:date;index:idx_name_born,priority:2,sort:desc"`
	Balance   string    `gorm:"type:decimal(20,4);default:0;check:chk_balance,balance >= 0"`
	Photo     []byte
	CompanyID uint   `gorm:"index"`
	Nick      string `gorm:"size:20;default:none"`
}

func (gormUserLater) TableName() string { return "gorm_users" }

// TestGORM migrates models, stores and finds them through their associations,
// and migrates to the next version of the models with the rows in place.
func TestGORM(t *testing.T) {
	n := startServer(t)
	dsn := "root@tcp(" + n.Addr + ")/test?charset=utf8mb4&parseTime=True&loc=UTC"
	db, err := gorm.Open(gormmysql.Open(dsn), &gorm.Config{Logger: logger.Default.LogMode(logger.Silent), TranslateError: true})
	require.NoError(t, err)
	pool, err := db.DB()
	require.NoError(t, err)
	defer pool.Close()

	models := []any{&gormCompany{}, &gormUser{}, &gormCard{}, &gormLanguage{}}
	require.NoError(t, db.AutoMigrate(models...))
	require.NoError(t, db.AutoMigrate(models...), "a migration that has nothing to do")
	require.True(t, db.Migrator().HasConstraint(&gormCompany{}, "Users"))

	t.Run("rows", func(t *testing.T) { gormRows(t, db) })
	t.Run("next release", func(t *testing.T) { gormNextRelease(t, db) })
}

func gormRows(t *testing.T, db *gorm.DB) {
	email := "zoë@example.org"
	born := time.Date(1990, 2, 28, 0, 0, 0, 0, time.UTC)
	user := gormUser{
		Name: "Zoë 😀", Email: &email, Born: born, Balance: "12345678901234.5678", Photo: []byte{0, 255, '\'', '\\'},
		Company: gormCompany{Name: "Ünïon"}, Card: gormCard{Number: "4711"}, Languages: []gormLanguage{{Code: "de"}, {Code: "ja"}},
	}
	require.NoError(t, db.Create(&user).Error)
	batch := make([]gormUser, 250)
	for i := range batch {
		batch[i] = gormUser{Name: "batch", Born: born, CompanyID: user.CompanyID}
	}
	require.NoError(t, db.CreateInBatches(&batch, 100).Error)

	var found gormUser
	require.NoError(t, db.Preload(clause.Associations).Joins("Card").First(&found, "gorm_users.name = ?", "Zoë 😀").Error)
	require.Equal(t, user.Balance, found.Balance)
	require.Equal(t, user.Photo, found.Photo)
	require.True(t, born.Equal(found.Born))
	require.Equal(t, "Ünïon", found.Company.Name)
	require.Equal(t, "4711", found.Card.Number)
	require.Len(t, found.Languages, 2)
	require.WithinDuration(t, user.CreatedAt, found.CreatedAt, time.Millisecond)

	require.NoError(t, db.Model(&found).Association("Languages").Replace(&gormLanguage{Code: "fr"}))
	require.EqualValues(t, 1, db.Model(&found).Association("Languages").Count())
	require.NoError(t, db.Clauses(clause.OnConflict{UpdateAll: true}).Create(&gormCompany{ID: user.CompanyID, Name: "Union"}).Error)
	require.ErrorIs(t, db.Create(&gormCompany{Name: "Union"}).Error, gorm.ErrDuplicatedKey)
	require.ErrorIs(t, db.Create(&gormUser{Name: "x", Born: born, CompanyID: 4711}).Error, gorm.ErrForeignKeyViolated)

	failed := errors.New("on purpose")
	require.ErrorIs(t, db.Transaction(func(tx *gorm.DB) error {
		require.NoError(t, tx.Where("name = ?", "batch").Delete(&gormUser{}).Error)
		require.ErrorIs(t, tx.Transaction(func(tx *gorm.DB) error { return failed }), failed, "a savepoint")
		return failed
	}), failed)
	var count int64
	require.NoError(t, db.Model(&gormUser{}).Where("name = ?", "batch").Count(&count).Error)
	require.EqualValues(t, 250, count)

	require.NoError(t, db.Delete(&batch[0]).Error)
	require.NoError(t, db.Model(&gormUser{}).Where("name = ?", "batch").Count(&count).Error)
	require.EqualValues(t, 249, count, "a soft delete")
	require.NoError(t, db.Clauses(clause.Locking{Strength: "UPDATE"}).First(&found, found.ID).Error)
}

func gormNextRelease(t *testing.T, db *gorm.DB) {
	require.NoError(t, db.AutoMigrate(&gormUserLater{}))
	migrator := db.Migrator()
	for _, index := range []string{"idx_name_born", "idx_gorm_users_email", "idx_gorm_users_company_id"} {
		require.True(t, migrator.HasIndex(&gormUserLater{}, index), index)
	}
	types, err := migrator.ColumnTypes(&gormUserLater{})
	require.NoError(t, err)
	lengths := make(map[string]int64)
	for _, column := range types {
		lengths[column.Name()], _ = column.Length()
	}
	require.EqualValues(t, 80, lengths["name"])
	require.EqualValues(t, 191, lengths["email"])
	require.NoError(t, db.Exec("ADMIN CHECK TABLE gorm_users").Error)

	var users []gormUserLater
	require.NoError(t, db.Where("name = ? AND born = ?", "batch", "1990-02-28").Find(&users).Error)
	require.Len(t, users, 249)
	require.Equal(t, "none", users[0].Nick)
	require.NoError(t, migrator.RenameColumn(&gormUserLater{}, "nick", "nickname"))
	require.NoError(t, migrator.RenameIndex(&gormUserLater{}, "idx_name_born", "idx_renamed"))
	require.NoError(t, migrator.DropIndex(&gormUserLater{}, "idx_renamed"))
	require.NoError(t, migrator.DropColumn(&gormUserLater{}, "nickname"))
	require.NoError(t, migrator.DropTable("gorm_speaks", &gormCard{}, &gormUser{}, &gormCompany{}, &gormLanguage{}))
}
