//! rskafka: produce, consume, topics and deleting records. It has neither groups nor transactions.
use std::{collections::BTreeMap, error::Error, sync::Arc, time::Duration};

use rskafka::{
    client::{
        error::{Error as ClientError, ProtocolError},
        partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling},
        Client, ClientBuilder, Credentials, SaslConfig,
    },
    record::{Record, RecordAndOffset},
};
use rustls::pki_types::{pem::PemObject, CertificateDer};
use serde_json::{json, Value};

type Outcome<T> = Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let task: Value = serde_json::from_reader(std::io::stdin())?;
    match text(&task, "do") {
        "produce" => produce(&task).await,
        "consume" => consume(&task).await,
        "admin" => admin(&task).await,
        other => Err(format!("rskafka cannot {other}").into()),
    }
}

fn text<'a>(task: &'a Value, name: &str) -> &'a str {
    task[name].as_str().unwrap_or("")
}

fn number(task: &Value, name: &str) -> usize {
    task[name].as_u64().unwrap_or(0) as usize
}

fn say(event: &str) {
    println!("{}", json!({ "event": event }));
}

async fn connected(task: &Value) -> Outcome<Client> {
    let mut builder = ClientBuilder::new(vec![text(task, "servers").to_owned()]);
    if !text(task, "authority").is_empty() {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(text(task, "authority"))?)?;
        let tls = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        builder = builder.tls_config(Arc::new(tls));
    }
    if !text(task, "user").is_empty() {
        let credentials = Credentials::new(text(task, "user").to_owned(), text(task, "password").to_owned());
        builder = builder.sasl_config(SaslConfig::ScramSha512(credentials));
    }
    Ok(builder.build().await?)
}

async fn partition(client: &Client, task: &Value, index: usize) -> Outcome<PartitionClient> {
    let topic = text(task, "topic").to_owned();
    Ok(client.partition_client(topic, index as i32, UnknownTopicHandling::Retry).await?)
}

fn record(task: &Value, number: usize, size: usize) -> Record {
    let mut value = format!("{}-{number}", text(task, "prefix")).into_bytes();
    value.resize(size.max(value.len()), b'.');
    Record {
        key: Some(number.to_string().into_bytes()),
        value: Some(value),
        headers: BTreeMap::from([("writer".to_owned(), b"rskafka".to_vec())]),
        timestamp: chrono::Utc::now(),
    }
}

async fn produce(task: &Value) -> Outcome<()> {
    let codec = match text(task, "codec") {
        "gzip" => Compression::Gzip,
        "lz4" => Compression::Lz4,
        "snappy" => Compression::Snappy,
        "zstd" => Compression::Zstd,
        _ => Compression::NoCompression,
    };
    let client = connected(task).await?;
    let (first, count, partitions) = (number(task, "first"), number(task, "count"), number(task, "partitions"));
    for index in 0..partitions {
        let numbers = (first..first + count).filter(|one| one % partitions == index);
        let records = numbers.map(|one| record(task, one, number(task, "size"))).collect();
        partition(&client, task, index).await?.produce(records, codec).await?;
    }
    Ok(())
}

fn show(index: usize, read: &RecordAndOffset) {
    let value = read.record.value.clone().unwrap_or_default();
    let key = read.record.key.clone().unwrap_or_default();
    let writer = read.record.headers.get("writer").cloned().unwrap_or_default();
    let shown = json!({
        "partition": index,
        "offset": read.offset,
        "key": String::from_utf8_lossy(&key),
        "value": String::from_utf8_lossy(&value).trim_end_matches('.'),
        "size": value.len(),
        "writer": String::from_utf8_lossy(&writer),
    });
    println!("{shown}");
}

async fn consume(task: &Value) -> Outcome<()> {
    let client = connected(task).await?;
    for index in 0..number(task, "partitions") {
        let reader = partition(&client, task, index).await?;
        let end = reader.get_offset(OffsetAt::Latest).await?;
        let mut offset = reader.get_offset(OffsetAt::Earliest).await?;
        while offset < end {
            let (records, _) = reader.fetch_records(offset, 1..16 << 20, 1000).await?;
            for one in &records {
                show(index, one);
                offset = one.offset + 1;
            }
        }
    }
    Ok(())
}

async fn admin(task: &Value) -> Outcome<()> {
    let client = connected(task).await?;
    let (topic, partitions) = (text(task, "topic"), number(task, "partitions") as i32);
    let controller = client.controller_client()?;
    controller.create_topic(topic, partitions, 1, 10_000).await?;
    match controller.create_topic(topic, partitions, 1, 10_000).await {
        Err(ClientError::ServerError { protocol_error: ProtocolError::TopicAlreadyExists, .. }) => {}
        other => return Err(format!("a second topic of the same name: {other:?}").into()),
    }
    let topics = client.list_topics().await?;
    let found = topics.iter().find(|one| one.name == topic).ok_or("the topic is not listed")?;
    say(&format!("partitions {}", found.partitions.len()));
    let writer = partition(&client, task, 0).await?;
    writer.produce((0..10).map(|one| record(task, one, 0)).collect(), Compression::NoCompression).await?;
    writer.delete_records(4, 10_000).await?;
    say(&format!("first offset {}", writer.get_offset(OffsetAt::Earliest).await?));
    controller.delete_topic(topic, 10_000).await?;
    while client.list_topics().await?.iter().any(|one| one.name == topic) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    say("deleted");
    Ok(())
}
