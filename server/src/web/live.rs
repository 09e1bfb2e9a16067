//! News while somebody looks: server-sent events.
//!
//! An event carries the version of what is shown. A page that has another one asks for itself again, so that there is one way to make
//! a page and nothing is missed between its making and the first event.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::bug::version;
use super::list::{Wanted, version_of};
use super::refusal::Refusal;
use crate::access::Identity;
use crate::limits::Turn;
use crate::service::House;

/// However much happens, a page is told no more often.
const BETWEEN: Duration = Duration::from_millis(500);
/// What other servers store is not told to this one.
const LOOK: Duration = Duration::from_secs(5);

type News = Sse<axum::response::sse::KeepAliveStream<Events>>;
type Events = ReceiverStream<Result<Event, Infallible>>;

/// News of one bug.
pub(super) async fn bug(
    State(house): State<House>,
    who: Identity,
    Path(bug): Path<String>,
) -> Result<News, Refusal> {
    // Whoever may not see it is told so at once.
    house.overview(&who, &bug).await?;
    let turn = house.watch(&who)?;
    Ok(follow(house.clone(), turn, move || {
        let (house, who, bug) = (house.clone(), who.clone(), bug.clone());
        async move { Ok(version(&house.overview(&who, &bug).await?)) }
    }))
}

/// News of the list.
pub(super) async fn list(
    State(house): State<House>,
    who: Identity,
    Query(wanted): Query<Wanted>,
) -> Result<News, Refusal> {
    who.may_read_something()?;
    let turn = house.watch(&who)?;
    let wanted = std::sync::Arc::new(wanted);
    Ok(follow(house.clone(), turn, move || {
        let (house, who, wanted) = (house.clone(), who.clone(), wanted.clone());
        async move { version_of(&house, &who, &wanted).await }
    }))
}

/// Sends a version now and each time that it is another one.
fn follow<F>(house: House, turn: Turn, look: impl Fn() -> F + Send + 'static) -> News
where
    F: Future<Output = Result<String, Status>> + Send,
{
    let (events, sent) = mpsc::channel(1);
    let mut changes = house.room.changes();
    tokio::spawn(async move {
        let _turn = turn;
        let mut last = None;
        loop {
            // A store that has no answer just now may have one later.
            if let Ok(version) = look().await
                && last.as_ref() != Some(&version)
            {
                let event = Event::default().event("version").data(&version);
                if events.send(Ok(event)).await.is_err() {
                    return;
                }
                last = Some(version);
            }
            tokio::time::sleep(BETWEEN).await;
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(LOOK) => {}
                () = house.drained() => return,
                () = events.closed() => return,
            }
        }
    });
    stream(ReceiverStream::new(sent))
}

fn stream(events: Events) -> News {
    fn is_stream<S: Stream>(stream: S) -> S {
        stream
    }
    Sse::new(is_stream(events)).keep_alive(KeepAlive::new().interval(Duration::from_secs(15)))
}
