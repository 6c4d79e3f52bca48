import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends one message after the other with RocketMQ's client, and prints a line for each: when it ended (ms since 1970), ok or failed, its
 * status or exception, and how long it took (ms). Arguments: nameserver, topic, pollNameServerInterval (ms; 0: the client's own), pause (ms).
 */
public class SendsInTurn {
    public static void main(String[] words) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("sends-in-turn-" + words[2]);
        producer.setNamesrvAddr(words[0]);
        if (Integer.parseInt(words[2]) > 0) {
            producer.setPollNameServerInterval(Integer.parseInt(words[2]));
        }
        producer.start();
        byte[] body = "x".repeat(128).getBytes(StandardCharsets.UTF_8);
        while (true) {
            long began = System.nanoTime();
            String result;
            try {
                SendResult sent = producer.send(new Message(words[1], body));
                boolean stored = sent.getSendStatus().name().equals("SEND_OK");
                result = (stored ? "ok " : "failed ") + sent.getSendStatus();
            } catch (Exception error) {
                result = "failed " + error.getClass().getSimpleName();
            }
            System.out.println(System.currentTimeMillis() + " " + result + " " + (System.nanoTime() - began) / 1_000_000);
            Thread.sleep(Integer.parseInt(words[3]));
        }
    }
}
