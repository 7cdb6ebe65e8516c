"""A database as the driver of Spark talks to it: through the JVM, with the JDBC driver that Spark's tasks use too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from barnabas.connect.secrets import without_password
from barnabas.security.authn import Secret
from barnabas.spark import PipelineError, jvm_of

SPARK_FAILURES = (PySparkException, Py4JJavaError)
"""What a job of Spark ends with: PySpark has classes of its own for some of them."""

POSTGRES_OPTIONS = {
    # It makes of an unspecified text whatever the column is: jsonb, uuid, a date.
    "stringtype": "unspecified",
    # Seconds. Without limits, a connection whose other side is gone holds a connector up for ever.
    "connectTimeout": "10",
    "socketTimeout": "600",
}


class DatabaseError(PipelineError):
    """What the database said; `state` is its SQLSTATE, of which the first two letters tell the kind."""

    def __init__(self, sentence: str, cause: str, state: str) -> None:
        super().__init__(sentence, cause)
        self.state = state


@dataclass(frozen=True)
class Database:
    """`url` may hold a password and is shown without it."""

    url: Secret
    user: str | None = None
    password: Secret | None = None
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls, url: Secret, user: str | None, password: Secret | None, options: Mapping[str, str]
    ) -> Database:
        """With `options` over those that its driver had better have."""
        known = POSTGRES_OPTIONS if url.text.startswith("jdbc:postgresql:") else {}
        return cls(url, user, password, tuple({**known, **options}.items()))

    @property
    def location(self) -> str:
        return without_password(self.url.text).split("?")[0]

    def spark_options(self, session: SparkSession) -> dict[str, str]:
        """For Spark's own JDBC reader and writer. Spark hides `url` and `password` in plans."""
        given = {
            "url": spark_url(self.url.text),
            "driver": self._driver(session).getClass().getName(),
            **dict(self.options),
        }
        if self.user is not None:
            given["user"] = self.user
        if self.password is not None:
            given["password"] = self.password.text
        return given

    @contextmanager
    def connected(self, session: SparkSession) -> Iterator[JdbcConnection]:
        """One connection with a transaction of its own, which is rolled back unless it was committed."""
        connection = self._connect(session)
        try:
            yield JdbcConnection(connection, self.location)
        finally:
            with suppress(Py4JJavaError):
                connection.rollback()
            with suppress(Py4JJavaError):
                connection.close()

    def _connect(self, session: SparkSession) -> Any:
        properties = jvm_of(session).java.util.Properties()
        for name, value in (
            ("user", self.user),
            ("password", self.password and self.password.text),
            *self.options,
        ):
            if value is not None:
                properties.setProperty(name, value)
        try:
            connection = self._driver(session).connect(self.url.text, properties)
            connection.setAutoCommit(False)
        except Py4JJavaError as error:
            raise told(error, f"No connection to the database at {self.location}.") from None
        return connection

    def _driver(self, session: SparkSession) -> Any:
        """Of those that jars on the class path bring; no class is loaded by a name from the file."""
        jvm = jvm_of(session)
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        wanted = jvm.java.lang.Class.forName("java.sql.Driver")
        drivers = jvm.java.util.ServiceLoader.load(wanted, loader).iterator()
        while drivers.hasNext():
            driver = drivers.next()
            if driver.acceptsURL(self.url.text):
                return driver
        raise PipelineError(
            f"There is no JDBC driver for {self.location}: name its jar in the connector's `configuration`, as in "
            "`spark.jars: /opt/jars/postgresql-42.7.8.jar` or `spark.jars.packages: org.postgresql:postgresql:42.7.8`."
        )


def spark_url(url: str) -> str:
    """Spark knows MariaDB by the name of MySQL only: otherwise it quotes names as MariaDB does not."""
    if not url.startswith("jdbc:mariadb:"):
        return url
    separator = "&" if "?" in url else "?"
    return f"jdbc:mysql:{url.removeprefix('jdbc:mariadb:')}{separator}permitMysqlScheme"


class JdbcConnection:
    def __init__(self, connection: Any, location: str) -> None:
        self._connection = connection
        self._location = location

    def execute(self, statement: str, values: Sequence[Any] = ()) -> int:
        """How many rows it changed."""
        return int(self._run(statement, values, lambda prepared: prepared.executeUpdate()))

    def query(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._run(statement, values, _rows)  # type: ignore[no-any-return]

    def commit(self) -> None:
        try:
            self._connection.commit()
        except Py4JJavaError as error:
            raise told(
                error, f"The database at {self._location} did not say that it has committed."
            ) from None

    def rollback(self) -> None:
        self._connection.rollback()

    def columns_of(self, table: str) -> list[str]:
        """By the names that the database has for them; DatabaseError if there is no such table."""
        return self._run(f"SELECT * FROM {table} WHERE 1 = 0", (), _names)  # type: ignore[no-any-return]

    def has(self, table: str) -> bool:
        """Ends the transaction: a statement that fails has ended it anyway in some databases."""
        try:
            self.columns_of(table)
        except DatabaseError as error:
            if error.state.startswith("08"):
                raise
            return False
        finally:
            with suppress(Py4JJavaError):
                self._connection.rollback()
        return True

    def _run(self, statement: str, values: Sequence[Any], work: Any) -> Any:
        prepared = None
        try:
            prepared = self._connection.prepareStatement(statement)
            for number, value in enumerate(values, 1):
                prepared.setObject(number, value)
            return work(prepared)
        except Py4JJavaError as error:
            raise told(error, f"The database at {self._location} refuses a statement.") from None
        finally:
            if prepared is not None:
                with suppress(Py4JJavaError):
                    prepared.close()


def _rows(prepared: Any) -> list[tuple[Any, ...]]:
    results = prepared.executeQuery()
    width = results.getMetaData().getColumnCount()
    found = []
    while results.next():
        found.append(tuple(results.getObject(number) for number in range(1, width + 1)))
    return found


def _names(prepared: Any) -> list[str]:
    described = prepared.executeQuery().getMetaData()
    return [str(described.getColumnName(number)) for number in range(1, described.getColumnCount() + 1)]


def told(error: Py4JJavaError, sentence: str) -> DatabaseError:
    """Without the JVM's stack, and with what to do where the database is away."""
    java = error.java_exception
    state = ""
    with suppress(Exception):
        state = str(java.getSQLState() or "")
    if state.startswith("08") or state in ("57P01", "57P02", "57P03"):
        sentence += " It is away or breaks connections off: nothing is lost, and the batch is tried again."
    elif state.startswith("28"):
        sentence += " It does not let this user in: check `user` and `password`."
    return DatabaseError(sentence, without_password(str(java.getMessage())), state)
