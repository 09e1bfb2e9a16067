//! Hosts, and the files of their programs.

use std::sync::LazyLock;

use program::BuildId;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::SqlStore;
use super::rows::{IN_64, bytes, count, int, sixty_four};
use crate::access::Programs;
use crate::store::StoreError;
use crate::store::model::{HostRow, ModuleRow};

impl SqlStore {
    pub(super) async fn note_host(&self, host: &HostRow) -> Result<(), StoreError> {
        let mut writing = self.write().await?;
        sqlx::query(
            "INSERT INTO hosts (id, registration, seen) VALUES ($1, $2, $3) ON CONFLICT (id) DO UPDATE \
             SET registration = excluded.registration, seen = excluded.seen WHERE excluded.seen >= hosts.seen",
        )
        .bind(host.id.as_str())
        .bind(&host.registration[..])
        .bind(int(host.seen))
        .execute(&mut *writing)
        .await?;
        writing.commit().await
    }

    pub(super) async fn read_hosts(&self) -> Result<Vec<HostRow>, StoreError> {
        let rows = sqlx::query("SELECT id, registration, seen FROM hosts ORDER BY id")
            .fetch_all(&self.pool)
            .await?;
        let host = |row: &AnyRow| {
            Ok(HostRow {
                id: row.try_get("id")?,
                registration: bytes(row, "registration")?,
                seen: count(row, "seen")?,
            })
        };
        let mut hosts = rows.iter().map(host).collect::<Result<Vec<_>, StoreError>>()?;
        // Databases have orders of their own for text.
        hosts.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(hosts)
    }

    pub(super) async fn note_module(&self, module: &ModuleRow) -> Result<(), StoreError> {
        let mut writing = self.write().await?;
        sqlx::query(
            "INSERT INTO modules (build, programs, path, bytes, object, seen) VALUES ($1, $2, $3, $4, $5, $6) \
             ON CONFLICT (build, programs) DO UPDATE SET path = excluded.path, bytes = excluded.bytes, object = excluded.object, \
             seen = CASE WHEN excluded.seen > modules.seen THEN excluded.seen ELSE modules.seen END",
        )
        .bind(module.build.0.as_slice())
        .bind(module.programs.to_string())
        .bind(module.path.as_str())
        .bind(int(module.bytes))
        .bind(module.object.as_str())
        .bind(int(module.seen))
        .execute(&mut *writing)
        .await?;
        writing.commit().await
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

/// In an order that all servers have in common: two that wanted each other's rows would wait forever.
fn in_order(builds: &[BuildId]) -> Vec<BuildId> {
    let mut builds = builds.to_vec();
    builds.sort();
    builds.dedup();
    builds
}
