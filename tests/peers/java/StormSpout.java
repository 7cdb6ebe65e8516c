import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.kafka.spout.FirstPollOffsetStrategy;
import org.apache.storm.kafka.spout.KafkaSpout;
import org.apache.storm.kafka.spout.KafkaSpoutConfig;
import org.apache.storm.topology.BasicOutputCollector;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseBasicBolt;
import org.apache.storm.tuple.Tuple;

/** Prints each record that Storm's spout reads: SERVERS TOPIC GROUP. Offsets are committed when tuples are acknowledged. */
public class StormSpout {
    public static class Printer extends BaseBasicBolt {
        @Override
        public void execute(Tuple tuple, BasicOutputCollector collector) {
            System.out.println("record " + tuple.getStringByField("value"));
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {}
    }

    public static void main(String[] args) throws Exception {
        KafkaSpoutConfig<String, String> spout = KafkaSpoutConfig.builder(args[0], args[1])
                .setProp("group.id", args[2])
                .setFirstPollOffsetStrategy(FirstPollOffsetStrategy.UNCOMMITTED_EARLIEST)
                .setProcessingGuarantee(KafkaSpoutConfig.ProcessingGuarantee.AT_LEAST_ONCE)
                .setOffsetCommitPeriodMs(500)
                .build();
        TopologyBuilder topology = new TopologyBuilder();
        topology.setSpout("spout", new KafkaSpout<>(spout), 1);
        topology.setBolt("printer", new Printer(), 1).shuffleGrouping("spout");
        try (LocalCluster cluster = new LocalCluster();
                LocalCluster.LocalTopology running = cluster.submitTopology("print", new Config(), topology.createTopology())) {
            Thread.sleep(Long.MAX_VALUE);
        }
    }
}
