//! What library functions do to data, for those that are not entered.
//!
//! A function that is not in the table depends on every argument and returns something made from them,
//! which is what most functions do.

/// How a library function treats data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Summary {
    /// How many arguments it takes, when that is fixed and known.
    pub arguments: Option<u8>,
    /// What its result depends on.
    pub result: ResultOf,
    /// A bit for each argument that points to memory it writes.
    pub writes: u8,
    /// Its first argument is a lock that it takes or releases: whether it returns depends on who holds it.
    pub locks: bool,
}

/// What a library function's result depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResultOf {
    /// Its arguments.
    Arguments,
    /// The state of the world: a clock, a thread id, a fresh block of memory.
    Nothing,
}

const fn summary(arguments: u8, result: ResultOf, writes: u8) -> Summary {
    Summary {
        arguments: Some(arguments),
        result,
        writes,
        locks: false,
    }
}

impl Summary {
    /// What is assumed of a function that nobody described.
    pub const UNKNOWN: Self = Self {
        arguments: None,
        result: ResultOf::Arguments,
        writes: u8::MAX,
        locks: false,
    };

    /// The summary of a library function by its symbol, with or without version and fortification.
    #[must_use]
    pub fn of(symbol: &str) -> Self {
        use ResultOf::{Arguments, Nothing};
        let name = symbol.split('@').next().unwrap_or(symbol);
        let name = name.strip_prefix("__").unwrap_or(name);
        let name = name.strip_suffix("_chk").unwrap_or(name);
        match name {
            "malloc" | "alloca" => summary(1, Nothing, 0),
            "calloc" | "aligned_alloc" => summary(2, Nothing, 0),
            "_Znwm"
            | "_Znam"
            | "_ZnwmRKSt9nothrow_t"
            | "_ZnamRKSt9nothrow_t"
            | "rust_alloc"
            | "rust_alloc_zeroed" => summary(1, Nothing, 0),
            "free" | "_ZdlPv" | "_ZdaPv" | "close" | "fclose" => summary(1, Arguments, 0),
            "realloc" | "_ZdlPvm" => summary(2, Arguments, 0),
            "strlen" | "atoi" | "atol" | "strdup" | "puts" | "sem_wait" | "sem_post" => {
                summary(1, Arguments, 0)
            }
            "strcmp" | "strchr" | "strrchr" | "strstr" | "strcasecmp" | "fputs" => summary(2, Arguments, 0),
            "strnlen" | "strndup" => summary(2, Arguments, 0),
            "memcmp" | "strncmp" | "memchr" | "write" => summary(3, Arguments, 0),
            "memcpy" | "memmove" | "memset" | "strncpy" | "strncat" | "mempcpy" => summary(3, Arguments, 1),
            "strcpy" | "strcat" | "stpcpy" => summary(2, Arguments, 1),
            "read" | "recv" => summary(3, Arguments, 0b10),
            "fgets" | "fread" => summary(4, Arguments, 1),
            "pthread_mutex_lock"
            | "pthread_mutex_unlock"
            | "pthread_mutex_trylock"
            | "pthread_rwlock_rdlock"
            | "pthread_rwlock_wrlock"
            | "pthread_rwlock_unlock"
            | "pthread_spin_lock"
            | "pthread_spin_unlock"
            | "mtx_lock"
            | "mtx_unlock" => Self {
                locks: true,
                ..summary(1, Arguments, 0)
            },
            "pthread_mutex_destroy"
            | "pthread_cond_signal"
            | "pthread_cond_broadcast"
            | "pthread_cond_destroy"
            | "cnd_signal" => summary(1, Arguments, 0),
            "pthread_cond_wait" | "cnd_wait" | "pthread_barrier_wait" => summary(2, Arguments, 0),
            "pthread_mutex_init" | "pthread_cond_init" => summary(2, Arguments, 1),
            "pthread_create" => summary(4, Arguments, 1),
            "pthread_join" | "thrd_join" => summary(2, Arguments, 0b10),
            "usleep" | "sleep" | "exit" | "_exit" | "sched_yield" | "abort" => summary(1, Nothing, 0),
            "nanosleep" => summary(2, Nothing, 0b10),
            "rand" | "random" | "getpid" | "pthread_self" | "errno_location" | "clock" => {
                summary(0, Nothing, 0)
            }
            "time" => summary(1, Nothing, 1),
            "getenv" => summary(1, Arguments, 0),
            "clock_gettime" | "gettimeofday" => summary(2, Nothing, 0b11),
            _ => Self::UNKNOWN,
        }
    }

    /// Whether a library function fills what its first argument points to with what its second one does.
    #[must_use]
    pub fn copies(symbol: &str) -> bool {
        let name = symbol.split('@').next().unwrap_or(symbol);
        let name = name.strip_prefix("__").unwrap_or(name);
        let name = name.strip_suffix("_chk").unwrap_or(name);
        matches!(name, "memcpy" | "memmove" | "mempcpy")
    }

    /// Whether the function writes through its n-th argument.
    #[must_use]
    pub fn writes_through(&self, argument: usize) -> bool {
        argument < 8 && self.writes & (1 << argument) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_fortified_variants_are_the_function_itself() {
        assert_eq!(Summary::of("memcpy@GLIBC_2.14"), Summary::of("memcpy"));
        assert_eq!(Summary::of("__memcpy_chk"), Summary::of("memcpy"));
        assert!(Summary::of("memcpy").writes_through(0));
        assert!(!Summary::of("memcpy").writes_through(1));
        assert_eq!(Summary::of("frobnicate"), Summary::UNKNOWN);
    }
}
