//! What a database's errors mean to whoever asked.

use sqlx::error::DatabaseError;
use sqlx::postgres::PgDatabaseError;

use super::StoreError;

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(told) => told_by_database(&**told),
            sqlx::Error::Configuration(_) | sqlx::Error::InvalidArgument(_) | sqlx::Error::Encode(_) => {
                Self::Refused(error.to_string())
            }
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::ColumnNotFound(_) => {
                Self::Damaged(error.to_string())
            }
            // Lost connections in all their forms.
            _ => Self::Unavailable(error.to_string()),
        }
    }
}

fn told_by_database(error: &dyn DatabaseError) -> StoreError {
    let code = error.code().unwrap_or_default();
    let text = error.message().to_owned();
    match error.try_downcast_ref::<PgDatabaseError>() {
        Some(_) => postgres(&code, text),
        None => sqlite(code.parse().unwrap_or(0), text),
    }
}

/// By <https://www.postgresql.org/docs/current/errcodes-appendix.html>: the first two characters are a class.
fn postgres(code: &str, text: String) -> StoreError {
    match code.get(..2).unwrap_or_default() {
        // A case was forgotten while something was added to it: who asks again finds that out.
        "23" if code == "23503" => StoreError::Unavailable(text),
        // Text with a NUL, names longer than an index takes, a password that is not right, a database that is not there.
        "22" | "23" | "28" | "3D" | "54" => StoreError::Refused(text),
        // Tables that are not there, columns of another type, broken pages.
        "42" | "XX" => StoreError::Damaged(text),
        // Lost, shutting down, out of space or connections, in deadlock, read-only after a failover.
        _ => StoreError::Unavailable(text),
    }
}

/// By <https://www.sqlite.org/rescode.html>: the lowest byte is the primary code.
fn sqlite(code: i32, text: String) -> StoreError {
    const ERROR: i32 = 1;
    const CORRUPT: i32 = 11;
    const TOO_BIG: i32 = 18;
    const CONSTRAINT: i32 = 19;
    const CONSTRAINT_FOREIGN_KEY: i32 = 787;
    const MISMATCH: i32 = 20;
    const NOT_A_DATABASE: i32 = 26;
    match code & 0xff {
        CONSTRAINT if code == CONSTRAINT_FOREIGN_KEY => StoreError::Unavailable(text),
        TOO_BIG | CONSTRAINT | MISMATCH => StoreError::Refused(text),
        ERROR | CORRUPT | NOT_A_DATABASE => StoreError::Damaged(text),
        // Busy, full, unreadable, read-only.
        _ => StoreError::Unavailable(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_work_later_is_told_from_what_never_will() {
        let told = |error| match error {
            StoreError::Unavailable(_) => "later",
            StoreError::Refused(_) => "never",
            _ => "damaged",
        };
        // Shutdown, disk full, too many connections, deadlock, the primary became a standby.
        for code in ["57P01", "53100", "53300", "40P01", "25006", "08006", "23503"] {
            assert_eq!(told(postgres(code, String::new())), "later", "{code}");
        }
        for code in ["22021", "54000", "28P01", "3D000", "23505"] {
            assert_eq!(told(postgres(code, String::new())), "never", "{code}");
        }
        assert_eq!(told(postgres("42P01", String::new())), "damaged");
        // BUSY, BUSY_SNAPSHOT, IOERR_FSYNC, FULL, READONLY.
        for code in [5, 517, 1034, 13, 8] {
            assert_eq!(told(sqlite(code, String::new())), "later", "{code}");
        }
        assert_eq!(told(sqlite(18, String::new())), "never");
        assert_eq!(told(sqlite(26, String::new())), "damaged");
    }
}
