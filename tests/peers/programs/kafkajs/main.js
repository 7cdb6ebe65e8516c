// kafkajs: produce, consume, groups, transactions and topics.
const fs = require('fs')
const { Kafka, CompressionTypes, CompressionCodecs, Partitioners, logLevel } = require('kafkajs')
const snappy = require('kafkajs-snappy')
const lz4 = require('lz4-napi')
const zstd = require('@bokuweb/zstd-wasm')

CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async encoder => lz4.compressFrame(encoder.buffer),
  decompress: async buffer => lz4.decompressFrame(buffer),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => Buffer.from(zstd.compress(encoder.buffer)),
  decompress: async buffer => Buffer.from(zstd.decompress(buffer)),
})
const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}

const task = JSON.parse(fs.readFileSync(0))
const kafka = new Kafka({
  brokers: [task.servers],
  logLevel: logLevel.NOTHING,
  ssl: task.authority ? { ca: [fs.readFileSync(task.authority)] } : undefined,
  sasl: task.user ? { mechanism: 'scram-sha-256', username: task.user, password: task.password } : undefined,
})

const write = object => process.stdout.write(JSON.stringify(object) + '\n')
const say = event => write({ event })

function show(partition, message) {
  write({
    partition,
    offset: Number(message.offset),
    key: message.key.toString(),
    value: message.value.toString().replace(/\.+$/, ''),
    size: message.value.length,
    writer: message.headers.writer ? message.headers.writer.toString() : '',
  })
}

function records(first) {
  return Array.from({ length: task.count }, (_, index) => ({
    key: String(first + index),
    value: `${task.prefix}-${first + index}`.padEnd(task.size || 0, '.'),
    headers: { writer: 'kafkajs' },
  }))
}

async function connected(options) {
  const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner, ...options })
  await producer.connect()
  return producer
}

async function produce() {
  const producer = await connected({ idempotent: true, maxInFlightRequests: 1 })
  await producer.send({ topic: task.topic, compression: CODECS[task.codec || 'none'], messages: records(task.first) })
  await producer.disconnect()
}

async function member(groupId, eachMessage) {
  const sizes = { maxBytesPerPartition: 16 << 20, maxBytes: 64 << 20 }
  const times = { maxWaitTimeInMs: 100, sessionTimeout: 6000, heartbeatInterval: 1000 }
  const consumer = kafka.consumer({ groupId, ...sizes, ...times })
  consumer.on(consumer.events.GROUP_JOIN, () => say('assigned'))
  consumer.on(consumer.events.CRASH, event => fail(event.payload.error))
  await consumer.connect()
  await consumer.subscribe({ topic: task.topic, fromBeginning: true })
  await consumer.run({ autoCommit: false, eachMessage: options => eachMessage(consumer, options) })
  return consumer
}

// It reads in groups only.
async function consume() {
  let seen = 0
  await new Promise(resolve =>
    member(`reader-${process.pid}-${Date.now()}`, async (_, { partition, message }) => {
      show(partition, message)
      if (++seen === task.count) resolve()
    }).catch(fail)
  )
}

const next = (partition, message) => ({ topic: task.topic, partition, offset: String(Number(message.offset) + 1) })

async function group() {
  await member(task.group, async (consumer, { partition, message }) => {
    await consumer.commitOffsets([next(partition, message)])
    show(partition, message)
  })
  await new Promise(() => {})
}

const transactional = () => connected({ transactionalId: task.transactional_id, idempotent: true, maxInFlightRequests: 1 })

async function transact() {
  const producer = await transactional()
  let first = task.first
  for (const outcome of task.transactions) {
    const transaction = await producer.transaction()
    await transaction.send({ topic: task.topic, messages: records(first) })
    await (outcome === 'commit' ? transaction.commit() : transaction.abort())
    first += task.count
  }
  await producer.disconnect()
}

async function transform() {
  const producer = await transactional()
  await member(task.group, async (_, { partition, message }) => {
    const transaction = await producer.transaction()
    const { key, value, headers } = message
    await transaction.send({ topic: task.target, messages: [{ key, value, headers }] })
    const { topic, ...position } = next(partition, message)
    await transaction.sendOffsets({ consumerGroupId: task.group, topics: [{ topic, partitions: [position] }] })
    await transaction.commit()
    say('committed true')
  })
  await new Promise(() => {})
}

async function admin() {
  const client = kafka.admin()
  await client.connect()
  const topic = task.topic
  const configEntries = [{ name: 'retention.ms', value: '3600000' }]
  const wanted = { topics: [{ topic, numPartitions: task.partitions, configEntries }] }
  if (!(await client.createTopics(wanted))) throw new Error('the topic was not created')
  if (await client.createTopics(wanted)) throw new Error('the topic was created twice')
  const { topics } = await client.fetchTopicMetadata({ topics: [topic] })
  say(`partitions ${topics[0].partitions.length}`)
  const resource = { type: 2, name: topic, configNames: ['retention.ms'] }
  const described = await client.describeConfigs({ resources: [resource] })
  say(`retention ${described.resources[0].configEntries[0].configValue}`)
  await client.deleteTopics({ topics: [topic] })
  for (const deadline = Date.now() + 60000; Date.now() < deadline; ) {
    if (!(await client.listTopics()).includes(topic)) return say('deleted')
  }
}

function fail(error) {
  process.stderr.write(`${error.stack}\n`)
  process.exit(1)
}

zstd
  .init()
  .then(() => ({ produce, consume, group, transact, transform, admin })[task.do]())
  .then(() => process.stdout.write('', () => process.exit(0)))
  .catch(fail)
