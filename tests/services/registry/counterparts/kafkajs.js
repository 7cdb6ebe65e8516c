// npm's @kafkajs/confluent-schema-registry against a registry: node kafkajs.js URL
const { SchemaRegistry, SchemaType, COMPATIBILITY } = require("@kafkajs/confluent-schema-registry");

const schemas = {
  [SchemaType.AVRO]: `{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"int"}]}`,
  [SchemaType.JSON]: `{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}`,
  [SchemaType.PROTOBUF]: `syntax = "proto3"; package shop; message Order { int32 id = 1; }`,
};

async function main(host) {
  const registry = new SchemaRegistry({ host });
  for (const [type, schema] of Object.entries(schemas)) {
    const subject = `kafkajs-${type}-value`;
    const { id } = await registry.register({ type, schema }, { subject, compatibility: COMPATIBILITY.BACKWARD });
    const again = await registry.register({ type, schema }, { subject, compatibility: COMPATIBILITY.BACKWARD });
    const latest = await registry.getLatestSchemaId(subject);
    const found = await registry.getRegistryId(subject, "latest");
    const read = await registry.decode(await registry.encode(id, { id: 7 }));
    const fresh = await new SchemaRegistry({ host }).decode(await registry.encode(id, { id: 8 }));
    if (again.id !== id || latest !== id || found !== id || read.id !== 7 || fresh.id !== 8) {
      throw new Error(`${type}: ${id} ${again.id} ${latest} ${found} ${JSON.stringify(read)}`);
    }
    console.log(`${type}: registered, encoded and decoded`);
  }
}

main(process.argv[2]).catch((error) => { console.error(error); process.exit(1); });
