//! A pipeline as iterators make them: each stage is a type that has the stages before it in its name. The last stage
//! reads the rate while another thread may still set it.

use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{Duration, Instant};

static RATE: AtomicPtr<u64> = AtomicPtr::new(std::ptr::null_mut());

struct Scaled<Source, Rounding>(Source, Rounding);
struct Checked<Source, Limit>(Source, Limit);
struct Batched<Source, Size>(Source, Size);
struct HalfEven<Digits>(Digits);
struct Cents<Unit>(Unit);
struct Orders<Customer, Region>(Vec<(Customer, Region)>);

trait Stage {
    fn next(&mut self) -> Option<u64>;
}

impl<Customer, Region> Stage for Orders<Customer, Region> {
    #[inline(never)]
    fn next(&mut self) -> Option<u64> {
        self.0.pop().map(|_| 40)
    }
}

impl<Source: Stage, Rounding> Stage for Scaled<Source, Rounding> {
    #[inline(never)]
    fn next(&mut self) -> Option<u64> {
        let value = self.0.next()?;
        let rate = RATE.load(Ordering::Relaxed); // @read
        // SAFETY: nobody checks that it was set: that is the bug.
        Some(value * unsafe { rate.read_volatile() }) // @fail
    }
}

impl<Source: Stage, Limit> Stage for Checked<Source, Limit> {
    #[inline(never)]
    fn next(&mut self) -> Option<u64> {
        self.0.next().filter(|value| *value < 1 << 40)
    }
}

impl<Source: Stage, Size> Stage for Batched<Source, Size> {
    #[inline(never)]
    fn next(&mut self) -> Option<u64> {
        Some(self.0.next()? + self.0.next()?)
    }
}

fn pause(start: Instant) -> Duration {
    Duration::from_micros(start.elapsed().subsec_nanos() as u64 % 700)
}

fn main() {
    let start = Instant::now();
    let setter = std::thread::spawn(move || {
        std::thread::sleep(pause(start));
        RATE.store(Box::into_raw(Box::new(3)), Ordering::Relaxed); // @set
    });
    std::thread::sleep(Duration::from_micros(200) + pause(start));
    type Customers = std::collections::BTreeMap<std::borrow::Cow<'static, str>, std::rc::Rc<std::cell::RefCell<Vec<u8>>>>;
    type Region = std::collections::HashMap<std::num::NonZeroU64, std::sync::Arc<std::sync::Mutex<Option<String>>>>;
    let orders = Orders::<Option<Customers>, Option<Region>>(vec![(None, None), (None, None), (None, None), (None, None)]);
    let scaled = Scaled(orders, HalfEven(Cents(std::marker::PhantomData::<Region>)));
    let checked = Checked(scaled, HalfEven(Cents(7_u8)));
    let mut batched = Batched(checked, Cents(4_u16));
    while let Some(value) = batched.next() {
        println!("{value}");
    }
    let _ = setter.join();
}
