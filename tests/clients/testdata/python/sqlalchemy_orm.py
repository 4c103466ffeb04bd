"""SQLAlchemy: create_all, the ORM, reflection, and a migration by Alembic.

Called as: sqlalchemy_orm.py HOST PORT DATABASE
"""

import datetime
import decimal
import enum
import sys

import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import orm
from sqlalchemy.dialects import mysql

host, port, database = sys.argv[1:]
engine = sa.create_engine(f"mysql+pymysql://root@{host}:{port}/{database}?charset=utf8mb4", pool_pre_ping=True)


class Base(orm.DeclarativeBase):
    pass


class Colour(enum.Enum):
    red = 1
    blue = 2


speaks = sa.Table(
    "speaks", Base.metadata,
    sa.Column("person_id", sa.ForeignKey("person.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("language", sa.String(8), sa.ForeignKey("language.code"), primary_key=True),
)


class Language(Base):
    __tablename__ = "language"
    code: orm.Mapped[str] = orm.mapped_column(sa.String(8), primary_key=True)


class Person(Base):
    __tablename__ = "person"
    __table_args__ = (
        sa.UniqueConstraint("name", "born", name="uq_person"),
        sa.Index("ix_person_score", sa.text("score DESC"), "name"),
        sa.Index("ix_person_prefix", "name", "note", mysql_length={"name": 5, "note": 10}),
        sa.CheckConstraint("score >= 0", name="ck_score"),
        {"comment": "people, ünïcode"},
    )
    id: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, primary_key=True)
    name: orm.Mapped[str] = orm.mapped_column(sa.String(40))
    born: orm.Mapped[datetime.date | None]
    seen: orm.Mapped[datetime.datetime | None] = orm.mapped_column(mysql.DATETIME(fsp=6))
    score: orm.Mapped[decimal.Decimal] = orm.mapped_column(sa.Numeric(20, 6), server_default="0")
    colour: orm.Mapped[Colour | None] = orm.mapped_column(sa.Enum(Colour))
    data: orm.Mapped[dict | None] = orm.mapped_column(sa.JSON)
    photo: orm.Mapped[bytes | None] = orm.mapped_column(mysql.LONGBLOB)
    note: orm.Mapped[str | None] = orm.mapped_column(sa.Text, comment="a comment")
    double: orm.Mapped[int | None] = orm.mapped_column(sa.BigInteger, sa.Computed("score * 2", persisted=True))
    boss_id: orm.Mapped[int | None] = orm.mapped_column(sa.ForeignKey("person.id"))
    boss: orm.Mapped["Person | None"] = orm.relationship(remote_side="Person.id", back_populates="team")
    team: orm.Mapped[list["Person"]] = orm.relationship(back_populates="boss")
    languages: orm.Mapped[list[Language]] = orm.relationship(secondary=speaks)


def store_and_find():
    seen = datetime.datetime(2024, 2, 29, 23, 59, 58, 45678)
    with orm.Session(engine) as session:
        boss = Person(name="Zoë 😀", born=datetime.date(1990, 2, 28), seen=seen, score=decimal.Decimal("12345678901234.567890"),
                      colour=Colour.blue, data={"n": 9007199254740993, "u": "ß"}, photo=bytes(range(256)), languages=[Language(code="ja"), Language(code="de")])
        session.add(boss)
        session.add_all(Person(name=f"worker {i}", score=i, boss=boss) for i in range(500))
        session.commit()
    with orm.Session(engine) as session:
        boss = session.scalars(sa.select(Person).where(Person.name == "Zoë 😀").options(orm.selectinload(Person.team))).one()
        assert boss.seen == seen and boss.score == decimal.Decimal("12345678901234.567890"), boss
        assert boss.colour is Colour.blue and boss.data == {"n": 9007199254740993, "u": "ß"} and boss.photo == bytes(range(256))
        assert len(boss.team) == 500 and {lang.code for lang in boss.languages} == {"de", "ja"}
        top = sa.select(Person.name).where(Person.boss_id.is_not(None)).order_by(Person.score.desc()).limit(3).offset(1)
        assert session.scalars(top).all() == ["worker 498", "worker 497", "worker 496"]
        ranked = sa.select(Person.id, sa.func.row_number().over(order_by=Person.score).label("n")).subquery()
        assert session.scalar(sa.select(sa.func.max(ranked.c.n))) == 501
        savepoint = session.begin_nested()
        session.add(Person(name="Zoë 😀", born=datetime.date(1990, 2, 28)))
        try:
            session.flush()
            raise AssertionError("a duplicate was accepted")
        except sa.exc.IntegrityError as error:
            assert error.orig.args[0] == 1062, error
            savepoint.rollback()
        session.execute(sa.update(Person).where(Person.score < 10).values(note="low"))
        assert session.scalar(sa.select(sa.func.count()).where(Person.note == "low")) == 10
        session.execute(mysql.insert(Language).values(code="fr").on_duplicate_key_update(code="fr"))
        session.rollback()
        assert session.scalar(sa.select(sa.func.count()).where(Person.note == "low")) == 0
    with engine.connect() as connection:  # a result that is read as it comes
        rows = connection.execution_options(stream_results=True, max_row_buffer=100).execute(sa.select(Person.id))
        assert sum(1 for _ in rows) == 501


def reflect():
    inspector = sa.inspect(engine)
    assert set(inspector.get_table_names()) == {"language", "person", "speaks"}
    columns = {c["name"]: c for c in inspector.get_columns("person")}
    assert columns["score"]["type"].precision == 20 and columns["seen"]["type"].fsp == 6
    assert columns["note"]["comment"] == "a comment" and columns["colour"]["type"].enums == ["red", "blue"]
    assert columns["double"]["computed"]["persisted"], columns["double"]
    indexes = {i["name"]: i for i in inspector.get_indexes("person")}
    assert indexes["ix_person_score"]["column_names"] == ["score", "name"]
    assert indexes["ix_person_prefix"]["dialect_options"]["mysql_length"] == {"name": 5, "note": 10}
    assert inspector.get_unique_constraints("person")[0]["column_names"] == ["name", "born"]
    keys = inspector.get_foreign_keys("speaks")
    assert {(k["referred_table"], k["options"].get("ondelete")) for k in keys} == {("person", "CASCADE"), ("language", None)}, keys
    assert inspector.get_table_comment("person")["text"] == "people, ünïcode"
    mirror = sa.MetaData()
    mirror.reflect(engine)
    assert len(mirror.tables["person"].columns) == len(Person.__table__.columns)


def migrate():
    with engine.connect() as connection:
        context = MigrationContext.configure(connection)
        op = Operations(context)
        with context.begin_transaction():
            op.create_index("ix_person_seen", "person", ["seen", "name"])
            op.create_index("ux_person_id_name", "person", ["id", "name"], unique=True)
            op.add_column("person", sa.Column("nick", sa.String(20), server_default="none", nullable=False))
            op.alter_column("person", "note", new_column_name="remark", existing_type=sa.Text(), existing_nullable=True)
            op.alter_column("person", "name", type_=sa.String(80), existing_nullable=False)
            op.create_table("extra", sa.Column("id", sa.Integer, primary_key=True), sa.Column("person_id", sa.BigInteger, sa.ForeignKey("person.id")))
            op.rename_table("extra", "extras")
            op.bulk_insert(sa.table("extras", sa.column("id"), sa.column("person_id")), [{"id": i, "person_id": None} for i in range(1, 51)])
            op.execute("ADMIN CHECK TABLE person")
        connection.commit()
        changes = {change[0] for change in compare_metadata(context, Base.metadata) if isinstance(change, tuple)}
        assert {"remove_index", "remove_table", "remove_column", "add_column"} <= changes, changes
        assert connection.scalar(sa.text("SELECT COUNT(*) FROM person WHERE nick = 'none'")) == 501
        with context.begin_transaction():
            op.drop_index("ix_person_seen", "person")
            op.drop_table("extras")
        connection.commit()


Base.metadata.create_all(engine)
Base.metadata.create_all(engine)  # finds everything there
store_and_find()
reflect()
migrate()
Base.metadata.drop_all(engine)
assert sa.inspect(engine).get_table_names() == []
