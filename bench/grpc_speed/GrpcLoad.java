import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/**
 * Load by RocketMQ's Java 5 client. Arguments: host:port, topic, what (sync, async, paced, consume), how many (threads; calls in flight;
 * messages a second; consumers), seconds. Prints a line with key=value: messages, seconds, failures, and p50, p99 in ms.
 * The first third of the time warms up and does not count.
 */
public class GrpcLoad {
    private static final byte[] BODY = "x".repeat(128).getBytes(StandardCharsets.UTF_8);
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final AtomicLong DONE = new AtomicLong();
    private static final AtomicLong FAILED = new AtomicLong();
    private static final long[] NANOS = new long[1 << 22];
    private static volatile boolean counts;
    private static volatile boolean ends;

    public static void main(String[] words) throws Exception {
        int many = Integer.parseInt(words[3]);
        double seconds = Double.parseDouble(words[4]);
        ClientConfiguration where = ClientConfiguration.newBuilder().setEndpoints(words[0]).build();
        Thread[] threads = words[2].equals("consume")
            ? consumers(where, words[1], many)
            : producers(where, words[1], words[2], many);
        for (Thread thread : threads) {
            thread.setDaemon(true);
            thread.start();
        }
        Thread.sleep((long) (seconds * 1000 / 3));
        counts = true;
        long began = System.nanoTime();
        Thread.sleep((long) (seconds * 2000 / 3));
        counts = false;
        double took = (System.nanoTime() - began) / 1e9;
        ends = true;
        int count = (int) Math.min(DONE.get(), NANOS.length);
        long[] sorted = Arrays.copyOf(NANOS, count);
        Arrays.sort(sorted);
        System.out.printf("messages=%d seconds=%.3f failures=%d p50=%.3f p99=%.3f%n", DONE.get(), took, FAILED.get(),
            count == 0 ? 0 : sorted[count / 2] / 1e6, count == 0 ? 0 : sorted[(int) (count * 0.99)] / 1e6);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static Thread[] producers(ClientConfiguration where, String topic, String what, int many) throws Exception {
        Producer producer = PROVIDER.newProducerBuilder().setClientConfiguration(where).setTopics(topic).build();
        Message message = PROVIDER.newMessageBuilder().setTopic(topic).setBody(BODY).build();
        if (what.equals("sync")) {
            Thread[] threads = new Thread[many];
            Arrays.setAll(threads, number -> new Thread(() -> sendSync(producer, topic)));
            return threads;
        }
        Semaphore window = new Semaphore(what.equals("async") ? many : 10_000);
        double pauseNanos = what.equals("async") ? 0 : 1e9 / many;
        return new Thread[] {new Thread(() -> sendAsync(producer, topic, window, pauseNanos))};
    }

    private static Message message(String topic) {
        return PROVIDER.newMessageBuilder().setTopic(topic).setBody(BODY).build();
    }

    private static void sendSync(Producer producer, String topic) {
        while (!ends) {
            long began = System.nanoTime();
            try {
                producer.send(message(topic));
                done(began);
            } catch (Exception error) {
                failed(error);
            }
        }
    }

    private static void sendAsync(Producer producer, String topic, Semaphore window, double pauseNanos) {
        double next = System.nanoTime();
        while (!ends) {
            window.acquireUninterruptibly();
            next += pauseNanos;
            while (pauseNanos > 0 && System.nanoTime() < next) {
                Thread.yield();
            }
            long began = pauseNanos > 0 ? (long) next : System.nanoTime();
            producer.sendAsync(message(topic)).whenComplete((receipt, error) -> {
                window.release();
                if (error == null) {
                    done(began);
                } else {
                    failed(error);
                }
            });
        }
    }

    private static Thread[] consumers(ClientConfiguration where, String topic, int many) throws Exception {
        SimpleConsumer consumer = PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(where)
            .setConsumerGroup("grpc-load").setAwaitDuration(Duration.ofSeconds(5))
            .setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL)).build();
        Thread[] threads = new Thread[many];
        Arrays.setAll(threads, number -> new Thread(() -> consume(consumer)));
        return threads;
    }

    private static void consume(SimpleConsumer consumer) {
        while (!ends) {
            long began = System.nanoTime();
            try {
                List<MessageView> views = consumer.receive(32, Duration.ofSeconds(30));
                for (MessageView view : views) {
                    consumer.ack(view);
                    done(began);
                }
            } catch (Exception error) {
                failed(error);
            }
        }
    }

    private static void done(long began) {
        if (counts) {
            long place = DONE.getAndIncrement();
            if (place < NANOS.length) {
                NANOS[(int) place] = System.nanoTime() - began;
            }
        }
    }

    private static void failed(Throwable error) {
        if (FAILED.getAndIncrement() < 3) {
            System.err.println(error);
        }
    }
}
