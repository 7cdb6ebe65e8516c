"""Database connections through Spark's JVM, with the same JDBC driver as Spark's tasks."""

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
"""Exceptions of a failed Spark job: PySpark converts some Java exceptions to Python classes."""

POSTGRES_OPTIONS = {
    # Send strings untyped, so that PostgreSQL converts them to the column's type: jsonb, uuid, date.
    "stringtype": "unspecified",
    # Seconds. Without timeouts, a dead peer blocks a connector indefinitely.
    "connectTimeout": "10",
    "socketTimeout": "600",
}


class DatabaseError(PipelineError):
    """Error reported by the database; `state` is the SQLSTATE, whose first two characters are the class."""

    def __init__(self, sentence: str, cause: str, state: str) -> None:
        super().__init__(sentence, cause)
        self.state = state


@dataclass(frozen=True)
class Database:
    """Address and credentials of a database; a password in `url` is never displayed."""

    url: Secret
    user: str | None = None
    password: Secret | None = None
    options: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls, url: Secret, user: str | None, password: Secret | None, options: Mapping[str, str]
    ) -> Database:
        """Create with the recommended driver options, overridden by `options`."""
        known = POSTGRES_OPTIONS if url.text.startswith("jdbc:postgresql:") else {}
        return cls(url, user, password, tuple({**known, **options}.items()))

    @property
    def location(self) -> str:
        return without_password(self.url.text).split("?")[0]

    def spark_options(self, session: SparkSession) -> dict[str, str]:
        """Return options for Spark's JDBC reader and writer. Spark hides `url` and `password` in plans."""
        server_properties = {
            "url": spark_url(self.url.text),
            "driver": self._driver(session).getClass().getName(),
            **dict(self.options),
        }
        if self.user is not None:
            server_properties["user"] = self.user
        if self.password is not None:
            server_properties["password"] = self.password.text
        return server_properties

    @contextmanager
    def connected(self, session: SparkSession) -> Iterator[JdbcConnection]:
        """Open a connection with one transaction, rolled back unless committed."""
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
        """Find the driver among those on the class path; never load a class named in the configuration file."""
        jvm = jvm_of(session)
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        driver_class = jvm.java.lang.Class.forName("java.sql.Driver")
        drivers = jvm.java.util.ServiceLoader.load(driver_class, loader).iterator()
        while drivers.hasNext():
            driver = drivers.next()
            if driver.acceptsURL(self.url.text):
                return driver
        raise PipelineError(
            f"No JDBC driver found for {self.location}: set its jar in the connector's `configuration`, for example "
            "`spark.jars: /opt/jars/postgresql-42.7.8.jar` or `spark.jars.packages: org.postgresql:postgresql:42.7.8`."
        )


def spark_url(url: str) -> str:
    """Rewrite MariaDB URLs as MySQL: Spark selects its dialect by URL, and would otherwise quote names incorrectly."""
    if not url.startswith("jdbc:mariadb:"):
        return url
    separator = "&" if "?" in url else "?"
    return f"jdbc:mysql:{url.removeprefix('jdbc:mariadb:')}{separator}permitMysqlScheme"


class JdbcConnection:
    def __init__(self, connection: Any, location: str) -> None:
        self._connection = connection
        self._location = location

    def execute(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Return the number of changed rows."""
        return int(self._run(statement, values, lambda prepared: prepared.executeUpdate()))

    def query(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._run(statement, values, _rows)  # type: ignore[no-any-return]

    def commit(self) -> None:
        try:
            self._connection.commit()
        except Py4JJavaError as error:
            raise told(error, f"The database at {self._location} did not confirm the commit.") from None

    def rollback(self) -> None:
        self._connection.rollback()

    def columns_of(self, table: str) -> list[str]:
        """Return the column names as spelled by the database; DatabaseError if the table does not exist."""
        return self._run(f"SELECT * FROM {table} WHERE 1 = 0", (), _names)  # type: ignore[no-any-return]

    def has(self, table: str) -> bool:
        """True if the table exists. Ends the transaction: in some databases a failed statement aborts it anyway."""
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
            raise told(error, f"The database at {self._location} rejects a statement.") from None
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
    """Convert a JVM error to a DatabaseError, without the stack and with advice if the database is unreachable."""
    java = error.java_exception
    state = ""
    with suppress(Exception):
        state = str(java.getSQLState() or "")
    if state.startswith("08") or state in ("57P01", "57P02", "57P03"):
        sentence += " It is unreachable or drops connections: nothing is lost, and the batch is retried."
    elif state.startswith("28"):
        sentence += " The login was rejected: check `user` and `password`."
    return DatabaseError(sentence, without_password(str(java.getMessage())), state)
