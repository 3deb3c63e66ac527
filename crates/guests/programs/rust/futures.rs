//! Futures on an executor of their own: tasks that wake each other across threads, timers,
//! joins, and a panic inside a task.
// flags: -O

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Task {
    future: Mutex<Option<Boxed>>,
    executor: Arc<Executor>,
}

#[derive(Default)]
struct Executor {
    ready: Mutex<VecDeque<Arc<Task>>>,
    woken: Condvar,
    left: Mutex<usize>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let executor = Arc::clone(&self.executor);
        executor.ready.lock().unwrap().push_back(self);
        executor.woken.notify_one();
    }
}

impl Executor {
    fn spawn(self: &Arc<Self>, future: impl Future<Output = ()> + Send + 'static) {
        *self.left.lock().unwrap() += 1;
        let task = Arc::new(Task {
            future: Mutex::new(Some(Box::pin(future))),
            executor: Arc::clone(self),
        });
        task.wake();
    }

    fn work(self: &Arc<Self>) {
        loop {
            let task = {
                let mut ready = self.ready.lock().unwrap();
                loop {
                    if *self.left.lock().unwrap() == 0 {
                        self.woken.notify_all();
                        return;
                    }
                    if let Some(task) = ready.pop_front() {
                        break task;
                    }
                    let wait = self.woken.wait_timeout(ready, Duration::from_millis(5));
                    ready = wait.unwrap().0;
                }
            };
            let waker = Waker::from(Arc::clone(&task));
            let mut future = task.future.lock().unwrap();
            let Some(running) = future.as_mut() else { continue };
            let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                running.as_mut().poll(&mut Context::from_waker(&waker))
            }));
            if !matches!(polled, Ok(Poll::Pending)) {
                *future = None;
                *self.left.lock().unwrap() -= 1;
            }
        }
    }
}

struct Sleep(Instant);

impl Future for Sleep {
    type Output = ();
    fn poll(self: Pin<&mut Self>, context: &mut Context) -> Poll<()> {
        if Instant::now() >= self.0 {
            return Poll::Ready(());
        }
        let (waker, until) = (context.waker().clone(), self.0);
        thread::spawn(move || {
            thread::sleep(until.saturating_duration_since(Instant::now()));
            waker.wake();
        });
        Poll::Pending
    }
}

#[derive(Default)]
struct Channel {
    state: Mutex<(VecDeque<u64>, Option<Waker>)>,
}

struct Receive<'a>(&'a Channel);

impl Future for Receive<'_> {
    type Output = u64;
    fn poll(self: Pin<&mut Self>, context: &mut Context) -> Poll<u64> {
        let mut state = self.0.state.lock().unwrap();
        match state.0.pop_front() {
            Some(value) => Poll::Ready(value),
            None => {
                state.1 = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Channel {
    fn send(&self, value: u64) {
        let mut state = self.state.lock().unwrap();
        state.0.push_back(value);
        if let Some(waker) = state.1.take() {
            waker.wake();
        }
    }
}

fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let executor = Arc::new(Executor::default());
    let total = Arc::new(Mutex::new(0));
    let channels: Vec<Arc<Channel>> = (0..20).map(|_| Arc::default()).collect();
    // A ring: each adds one to what it hears from the one before.
    for number in 0..channels.len() {
        let (from, to) = (
            Arc::clone(&channels[number]),
            Arc::clone(&channels[(number + 1) % channels.len()]),
        );
        let total = Arc::clone(&total);
        executor.spawn(async move {
            for _ in 0..50 {
                let value = Receive(&from).await + 1;
                *total.lock().unwrap() += value;
                to.send(value);
            }
        });
    }
    channels[0].send(0);
    let slept = Arc::clone(&total);
    executor.spawn(async move {
        let start = Instant::now();
        for _ in 0..5 {
            Sleep(Instant::now() + Duration::from_millis(2)).await;
        }
        assert!(start.elapsed() >= Duration::from_millis(10));
        *slept.lock().unwrap() += 1_000_000;
    });
    executor.spawn(async {
        Sleep(Instant::now() + Duration::from_millis(1)).await;
        panic!("in a task");
    });
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let executor = Arc::clone(&executor);
            thread::spawn(move || executor.work())
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    println!("{}", total.lock().unwrap());
}
