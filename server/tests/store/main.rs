//! The store, in real SQLite files and on real PostgreSQL servers: every scenario on both.

mod crashes;
mod knowledge;
mod logs;
mod objects;
mod orders;
mod owners;
mod pages;
mod place;
mod versions;
