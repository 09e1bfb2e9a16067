//! Makes thumbnails: one thread decodes pictures and passes them on through a
//! channel, one scales them into buffers that come from a common pool.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hasher};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

const PICTURES: usize = 5;
const SIDE: usize = 16;

/// Buffers that are used over and over again.
struct BufferPool {
    free: Mutex<Vec<Vec<u8>>>,
    handed_out: AtomicU64,
    made: AtomicU64,
}

static POOL: AtomicPtr<BufferPool> = AtomicPtr::new(ptr::null_mut());

struct Picture {
    name: String,
    width: usize,
    pixels: Vec<u8>,
}

struct Thumbnail {
    name: String,
    pixels: Vec<u8>,
}

#[derive(Default)]
struct Gallery {
    recent: VecDeque<String>,
    bytes: usize,
    checksum: u32,
}

fn doze(least: u64, most: u64) {
    let random = std::hash::RandomState::new().build_hasher().finish();
    thread::sleep(Duration::from_micros(least + random % (most - least)));
}

impl BufferPool {
    fn open() -> *mut BufferPool {
        let pool = Box::into_raw(Box::new(BufferPool {
            free: Mutex::new(Vec::new()),
            handed_out: AtomicU64::new(0),
            made: AtomicU64::new(0),
        }));
        POOL.store(pool, Ordering::Release); // @pool-open
        pool
    }

    /// From now on nobody gets a buffer.
    fn close() {
        POOL.store(ptr::null_mut(), Ordering::Release); // @pool-close
    }

    fn take(&self, size: usize) -> Vec<u8> {
        self.handed_out.fetch_add(1, Ordering::Relaxed);
        let reused = self.free.lock().unwrap().pop();
        let mut buffer = reused.unwrap_or_else(|| {
            self.made.fetch_add(1, Ordering::Relaxed);
            Vec::new()
        });
        buffer.clear();
        buffer.resize(size, 0);
        buffer
    }

    fn give_back(&self, buffer: Vec<u8>) {
        self.free.lock().unwrap().push(buffer);
    }
}

/// The pool that is open; who works while none is has been forgotten by somebody.
fn pool() -> &'static BufferPool {
    let pool = POOL.load(Ordering::Acquire); // @pool-read
    unsafe { pool.as_ref() }.expect("the buffer pool is closed") // @fail
}

fn decode(number: usize) -> Picture {
    doze(300, 2500);
    let width = SIDE * (2 + number % 3);
    let pixels = (0..width * width)
        .map(|i| (i * (number + 3) >> 2) as u8)
        .collect();
    Picture {
        name: format!("img_{number:04}.jpg"),
        width,
        pixels,
    }
}

fn decoder(pictures: SyncSender<Picture>) -> usize {
    let mut sent = 0;
    for number in 0..PICTURES {
        if pictures.send(decode(number)).is_err() {
            break;
        }
        sent += 1;
    }
    sent
}

fn scale(picture: &Picture) -> Thumbnail {
    let factor = picture.width / SIDE;
    let mut pixels = pool().take(SIDE * SIDE); // @pool
    for y in 0..SIDE {
        for x in 0..SIDE {
            let mut sum = 0usize;
            for dy in 0..factor {
                for dx in 0..factor {
                    sum += usize::from(picture.pixels[(y * factor + dy) * picture.width + x * factor + dx]);
                }
            }
            pixels[y * SIDE + x] = (sum / (factor * factor)) as u8;
        }
    }
    Thumbnail {
        name: picture.name.clone(),
        pixels,
    }
}

impl Gallery {
    fn store(&mut self, thumbnail: &Thumbnail) {
        self.bytes += thumbnail.pixels.len();
        for &pixel in &thumbnail.pixels {
            self.checksum = self.checksum.rotate_left(3) ^ u32::from(pixel);
        }
        self.recent.push_back(thumbnail.name.clone());
        if self.recent.len() > 3 {
            self.recent.pop_front();
        }
    }
}

fn scaler(pictures: Receiver<Picture>) -> Gallery {
    let mut gallery = Gallery::default();
    for picture in pictures {
        doze(100, 2700);
        let thumbnail = scale(&picture); // @scale
        gallery.store(&thumbnail);
        if let Some(pool) = unsafe { POOL.load(Ordering::Acquire).as_ref() } {
            pool.give_back(thumbnail.pixels);
        }
    }
    gallery
}

fn print_gallery(gallery: &Gallery, pool: &BufferPool) {
    for name in &gallery.recent {
        println!("{name}");
    }
    println!(
        "{} bytes, checksum {:08x}, {} buffers for {} pictures",
        gallery.bytes,
        gallery.checksum,
        pool.made.load(Ordering::Relaxed),
        pool.handed_out.load(Ordering::Relaxed)
    );
}

fn main() {
    let pool = BufferPool::open(); // @open
    let (send, receive) = sync_channel(3);
    let decoding = thread::spawn(move || decoder(send));
    let scaling = thread::spawn(move || scaler(receive)); // @spawn

    // When the last picture is decoded there is nothing left to do but to store the list.
    let sent = decoding.join().unwrap_or(0);
    doze(500, 9000);
    BufferPool::close(); // @close

    let gallery = scaling.join().unwrap_or_default();
    println!("{sent} pictures");
    unsafe {
        print_gallery(&gallery, &*pool);
        drop(Box::from_raw(pool));
    }
}
