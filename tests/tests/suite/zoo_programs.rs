//! The programs of the zoo, a test each.

/// Makes a test of every program: the function gets its name.
macro_rules! for_each_program {
    ($check:path) => {
        for_each_program! { $check =>
            apache_log_index: "apache-log-index",
            apache_refcount: "apache-refcount",
            binlog_rotate: "binlog-rotate",
            curl_url_glob: "curl-url-glob",
            frame_release: "frame-release",
            ledger_transfer: "ledger-transfer",
            memcached_incr: "memcached-incr",
            mozilla_io_pending: "mozilla-io-pending",
            mysql_proc_info: "mysql-proc-info",
            mysql_redo_pending: "mysql-redo-pending",
            pbzip2_queue: "pbzip2-queue",
            process_list: "process-list",
            property_cache: "property-cache",
            rate_catalog: "rate-catalog",
            session_reaper: "session-reaper",
            sqlite_lock_order: "sqlite-lock-order",
            token_scopes: "token-scopes",
            transmission_bandwidth: "transmission-bandwidth",
        }
    };
    ($check:path => $($function:ident: $name:literal,)*) => {
        $(#[test]
        fn $function() {
            $check($name);
        })*

        #[test]
        fn no_program_is_left_out() {
            let all = failsketch_tests::facts::Program::load_all(failsketch_tests::zoo::folder()).unwrap();
            let names: Vec<&str> = all.iter().map(|program| program.facts.name.as_str()).collect();
            assert_eq!(names, [$($name),*]);
        }
    };
}
