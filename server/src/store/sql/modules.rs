//! Files of programs.

use std::sync::LazyLock;

use program::BuildId;
use sqlx::{AnyConnection, Row as _};

use super::SqlStore;
use super::holdings::{self, LEAST};
use super::objects::{lost, touch};
use super::rows::{IN_64, count, int, sixty_four};
use crate::access::Programs;
use crate::store::StoreError;
use crate::store::model::{ModuleRow, Owner};

impl SqlStore {
    pub(super) async fn note_module(&self, module: &ModuleRow, owner: &Owner) -> Result<(), StoreError> {
        let mut writing = self.write().await?;
        if !touch(&mut writing, &module.object, module.seen).await? {
            return Err(lost());
        }
        let new = sqlx::query(
            "INSERT INTO modules (build, programs, path, bytes, object, seen, owner) VALUES ($1, $2, $3, $4, $5, $6, $7) \
             ON CONFLICT DO NOTHING",
        )
        .bind(module.build.0.as_slice())
        .bind(module.programs.to_string())
        .bind(module.path.as_str())
        .bind(int(module.bytes))
        .bind(module.object.as_str())
        .bind(int(module.seen))
        .bind(owner.0.as_str())
        .execute(&mut *writing)
        .await?;
        if new.rows_affected() > 0 {
            // Its owner was let in with the object, which would be left over if he was turned away now.
            holdings::count(&mut writing, owner, LEAST, u64::MAX).await?;
            return writing.commit().await;
        }
        let known = sqlx::query(
            "UPDATE modules SET path = $3, bytes = $4, object = $5, seen = CASE WHEN seen < $6 THEN $6 ELSE seen END \
             WHERE build = $1 AND programs = $2",
        )
        .bind(module.build.0.as_slice())
        .bind(module.programs.to_string())
        .bind(module.path.as_str())
        .bind(int(module.bytes))
        .bind(module.object.as_str())
        .bind(int(module.seen))
        .execute(&mut *writing)
        .await?;
        match known.rows_affected() {
            0 => Err(lost()),
            _ => writing.commit().await,
        }
    }

    pub(super) async fn note_modules_seen(&self, builds: &[BuildId], at: u64) -> Result<(), StoreError> {
        static SQL: LazyLock<String> = LazyLock::new(|| {
            format!(
                "UPDATE modules SET seen = $65 WHERE seen < $65 AND build IN ({})",
                *IN_64
            )
        });
        let mut writing = self.write().await?;
        for some in in_order(builds).chunks(64) {
            let mut query = sqlx::query(SQL.as_str());
            for build in sixty_four(some) {
                query = query.bind(build.0.as_slice());
            }
            query.bind(int(at)).execute(&mut *writing).await?;
        }
        writing.commit().await
    }

    pub(super) async fn read_modules(&self, builds: &[BuildId]) -> Result<Vec<ModuleRow>, StoreError> {
        static SQL: LazyLock<String> = LazyLock::new(|| {
            format!(
                "SELECT build, programs, path, bytes, object, seen FROM modules WHERE build IN ({})",
                *IN_64
            )
        });
        let mut modules = Vec::new();
        for some in in_order(builds).chunks(64) {
            let mut query = sqlx::query(SQL.as_str());
            for build in sixty_four(some) {
                query = query.bind(build.0.as_slice());
            }
            for row in query.fetch_all(&self.pool).await? {
                modules.push(ModuleRow {
                    build: BuildId(row.try_get("build")?),
                    programs: Programs::written(row.try_get("programs")?),
                    path: row.try_get("path")?,
                    bytes: count(&row, "bytes")?,
                    object: row.try_get("object")?,
                    seen: count(&row, "seen")?,
                });
            }
        }
        modules.sort_by_cached_key(|row| (row.build.clone(), row.programs.to_string()));
        Ok(modules)
    }
}

/// Whether all files of a process are there that a case is about to be opened with, as somebody uploaded them who may report on its
/// program. They are not forgotten before the case is open.
pub(super) async fn hold_modules(
    connection: &mut AnyConnection,
    program: &str,
    builds: &[BuildId],
    at: u64,
) -> Result<bool, StoreError> {
    const SQL: &str = "UPDATE modules SET seen = CASE WHEN seen < $2 THEN $2 ELSE seen END WHERE build = $1 RETURNING programs";
    for build in in_order(builds) {
        let programs: Vec<String> = sqlx::query_scalar(SQL)
            .bind(build.0.as_slice())
            .bind(int(at))
            .fetch_all(&mut *connection)
            .await?;
        if !programs
            .iter()
            .any(|programs| Programs::written(programs).contain(program))
        {
            return Ok(false);
        }
    }
    Ok(true)
}

/// In an order that all servers have in common: two that wanted each other's rows would wait forever.
fn in_order(builds: &[BuildId]) -> Vec<BuildId> {
    let mut builds = builds.to_vec();
    builds.sort();
    builds.dedup();
    builds
}
