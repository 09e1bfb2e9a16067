//! The hosts that took part in a search, and what each of them covered.

use std::collections::HashMap;

use prost::Message as _;
use proto::v1::RegisterRequest;
use tonic::Status;

use crate::desk::Course;
use crate::service::House;
use crate::web::shown::{Moment, grouped, shown};

/// Hosts on a page: those that did most.
const MOST: usize = 30;

/// A host, and its share.
pub(super) struct Host {
    pub(super) name: String,
    pub(super) id: String,
    pub(super) means: String,
    pub(super) runs: String,
    pub(super) failing: u64,
    pub(super) incomplete: u64,
    pub(super) places: usize,
    pub(super) last: Moment,
}

/// The hosts that did most, and how many others there were.
pub(super) async fn hosts(house: &House, course: &Course, now: u64) -> Result<(Vec<Host>, usize), Status> {
    let mut shares: Vec<_> = course.hosts.iter().collect();
    shares.sort_by_key(|(_, share)| std::cmp::Reverse((share.failing, share.runs)));
    let more = shares.len().saturating_sub(MOST);
    shares.truncate(MOST);
    let ids: Vec<String> = shares.iter().map(|(id, _)| (*id).clone()).collect();
    let known = known(house, &ids).await?;
    let names = names(&known);
    let host = |(id, share): (&String, &crate::desk::Share)| {
        let said = known.get(id);
        let name = names.get(id.as_str()).unwrap_or(id);
        Host {
            name: shown(name, 60),
            id: shown(id, 60),
            means: said.map(means).unwrap_or_default(),
            runs: grouped(share.runs),
            failing: share.failing,
            incomplete: share.incomplete,
            places: share.places(),
            last: Moment::new(share.last, now),
        }
    };
    Ok((shares.into_iter().map(host).collect(), more))
}

/// What hosts said about themselves, by their ids.
async fn known(house: &House, ids: &[String]) -> Result<HashMap<String, RegisterRequest>, Status> {
    let known = house.store.hosts_named(ids).await;
    let known = known.map_err(|error| house.of_store(error))?.into_iter();
    let known = known.filter_map(|row| Some((row.id, RegisterRequest::decode(row.registration).ok()?)));
    Ok(known.collect())
}

/// What they are called, those of them that have a name. Several agents on one machine, and machines that were made from one image,
/// have one name.
fn names(known: &HashMap<String, RegisterRequest>) -> HashMap<&str, String> {
    let named = known.iter().filter(|(_, said)| !said.hostname.is_empty());
    let name = |(id, said): (&'_ String, &'_ RegisterRequest)| {
        let same = known.values().filter(|other| other.hostname == said.hostname);
        if same.count() > 1 {
            let start: String = id.chars().take(8).collect();
            format!("{} ({start})", said.hostname)
        } else {
            said.hostname.clone()
        }
    };
    named.map(|(id, said)| (id.as_str(), name((id, said)))).collect()
}

/// What these hosts are called: by their ids, where they have not said it.
pub(in crate::web) async fn called(
    house: &House,
    mut ids: Vec<String>,
) -> Result<HashMap<String, String>, Status> {
    ids.sort_unstable();
    ids.dedup();
    let known = known(house, &ids).await?;
    let names = names(&known);
    let name = |id: &String| names.get(id.as_str()).unwrap_or(id).clone();
    Ok(ids.iter().map(|id| (id.clone(), name(id))).collect())
}

/// What a host can do, in a few words.
fn means(said: &RegisterRequest) -> String {
    let Some(can) = &said.capabilities else {
        return String::new();
    };
    let mut words = vec![match can.registers {
        1 => "1 register".to_owned(),
        many => format!("{many} registers"),
    }];
    words.extend(can.data_flow.first().cloned());
    words.extend(can.control_flow.first().cloned());
    if !matches!(can.privacy.as_str(), "" | "full") {
        words.push(format!("values: {}", can.privacy));
    }
    shown(&words.join(" · "), 120)
}
