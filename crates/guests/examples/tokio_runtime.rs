//! Tasks on tokio's runtime of several threads: timers, connections over loopback, channels,
//! blocking work, a cancelled task and one that panics. Prints only what does not depend on
//! who did the work.
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Notify, broadcast, mpsc, oneshot};
use tokio::time::{Instant, interval, sleep, timeout};

type Problem = Box<dyn std::error::Error + Send + Sync>;

/// Answers each line of eight bytes by the square of the number in it.
async fn serve(listener: TcpListener, connections: usize) -> Result<(), Problem> {
    for _ in 0..connections {
        let (mut stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let mut number = [0; 8];
            while stream.read_exact(&mut number).await.is_ok() {
                let number = u64::from_le_bytes(number);
                stream.write_all(&(number * number).to_le_bytes()).await?;
            }
            Ok::<(), std::io::Error>(())
        });
    }
    Ok(())
}

async fn ask(port: u16, client: u64) -> Result<u64, Problem> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let mut sum = 0;
    for number in 0..50 {
        stream
            .write_all(&(client * 50 + number).to_le_bytes())
            .await?;
        let mut square = [0; 8];
        stream.read_exact(&mut square).await?;
        sum += u64::from_le_bytes(square);
    }
    Ok(sum)
}

async fn connections() -> Result<u64, Problem> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let port = listener.local_addr()?.port();
    let server = tokio::spawn(serve(listener, 8));
    let clients: Vec<_> = (0..8)
        .map(|client| tokio::spawn(ask(port, client)))
        .collect();
    let mut sum = 0;
    for client in clients {
        sum += client.await??;
    }
    server.await??;
    Ok(sum)
}

async fn timers() -> Result<(), Problem> {
    let started = Instant::now();
    let sleepers: Vec<_> = (1..=20)
        .map(|number| tokio::spawn(sleep(Duration::from_millis(number))))
        .collect();
    for sleeper in sleepers {
        sleeper.await?;
    }
    assert!(started.elapsed() >= Duration::from_millis(20));
    let mut ticks = interval(Duration::from_millis(2));
    for _ in 0..5 {
        ticks.tick().await;
    }
    let never = Notify::new();
    assert!(
        timeout(Duration::from_millis(5), never.notified())
            .await
            .is_err()
    );
    Ok(())
}

/// Numbers through a short channel from many senders; the end of all of them by another.
async fn channels() -> Result<u64, Problem> {
    let (sender, mut receiver) = mpsc::channel(4);
    let (stop, _) = broadcast::channel::<()>(1);
    let total = std::sync::Arc::new(Mutex::new(0));
    for start in 0..10_u64 {
        let (sender, total) = (sender.clone(), std::sync::Arc::clone(&total));
        let mut stopped = stop.subscribe();
        tokio::spawn(async move {
            for number in 0..100 {
                if sender.send(start * 100 + number).await.is_err() {
                    return;
                }
                tokio::task::yield_now().await;
            }
            drop(sender);
            let _stopped = stopped.recv().await;
            *total.lock().await += 1;
        });
    }
    drop(sender);
    let mut sum = 0;
    while let Some(number) = receiver.recv().await {
        sum += number;
    }
    stop.send(())?;
    while *total.lock().await != 10 {
        tokio::task::yield_now().await;
    }
    Ok(sum)
}

async fn blocking() -> Result<u64, Problem> {
    let work = (1..=12_u64).map(|number| {
        tokio::task::spawn_blocking(move || {
            std::thread::sleep(Duration::from_millis(1));
            (0..number * 1000).map(|i| i ^ number).sum::<u64>()
        })
    });
    let mut sum = 0;
    for work in work.collect::<Vec<_>>() {
        sum += work.await?;
    }
    let (answer, question) = oneshot::channel();
    std::thread::spawn(move || answer.send(sum));
    Ok(question.await? + tokio::task::block_in_place(|| 1))
}

async fn failures() -> Result<(), Problem> {
    let endless = tokio::spawn(std::future::pending::<()>());
    endless.abort();
    assert!(endless.await.is_err_and(|problem| problem.is_cancelled()));
    let panics = tokio::spawn(async { panic!("inside a task") });
    assert!(panics.await.is_err_and(|problem| problem.is_panic()));
    Ok(())
}

fn main() -> Result<(), Problem> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(3)
        .enable_all()
        .build()?;
    std::panic::set_hook(Box::new(|_| ()));
    runtime.block_on(async {
        println!("connections: {}", connections().await?);
        timers().await?;
        println!("channels: {}", channels().await?);
        println!("blocking: {}", blocking().await?);
        failures().await
    })?;
    runtime.shutdown_timeout(Duration::from_secs(5));
    println!("shut down");
    Ok(())
}
